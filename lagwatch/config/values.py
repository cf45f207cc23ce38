"""The types of setting values: validators for the file's plain values, serializers for `config show`.

Error messages contain neither secrets nor the values of environment variables.
"""

from __future__ import annotations

import ipaddress
import os
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import AfterValidator, PlainSerializer, PlainValidator, SecretStr, ValidationInfo

from lagwatch.config.interpolation import Expanded, quote
from lagwatch.config.units import format_duration, format_size, parse_duration, parse_size

MASK = "********"
_MAX_SECRET_BYTES = 64 * 1024


class Size(int):
    """A number of bytes. A separate type, to distinguish a value set in code from a bare number in the file."""


@dataclass(frozen=True, slots=True)
class SecretFile:
    """A secret read from a file."""

    path: Path
    content: SecretStr


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool | int | float):
        raise ValueError(f'{quote(value)} is not text: put it in quotes, "{str(value).lower()}"')  # noqa: TRY004 -- pydantic wants ValueError
    raise ValueError(f"must be text, not {quote(value)}")


def _parser(parse: Callable[[str], Any], result: type) -> Callable[[Any], Any]:
    """A validator that parses text and accepts values of the type itself (defaults, settings made in code)."""

    def read(value: Any) -> Any:
        if isinstance(value, result):
            return value
        text = str(value) if type(value) in {int, float} else _text(value)  # 10 is "a duration without a unit"
        try:
            return parse(text)
        except ValueError as error:
            raise ValueError(f"{quote(value)} {error}") from None

    return read


def between(low: str, high: str) -> AfterValidator:
    """A validator for the range of a duration or size, bounds included."""

    def check(value: Any) -> Any:
        parse: Callable[[str], Any] = parse_duration if isinstance(value, timedelta) else parse_size
        if not parse(low) <= value <= parse(high):
            written = format_duration(value) if isinstance(value, timedelta) else format_size(value)
            raise ValueError(f'"{written}" is out of range (from {low} to {high})')
        return value

    return AfterValidator(check)


def _read_flag(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, Expanded) and value in {"true", "false"}:  # the value of a variable is always text
        return value == "true"
    raise ValueError(f"{quote(value)} is not true or false")


def _read_name(value: Any) -> str:
    text = _text(value)
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", text):
        raise ValueError(f"{quote(value)} is not a name (letters, digits, dot, dash, underscore; at most 100)")
    return str(text)


def _read_line(value: Any) -> str:
    text = _text(value)
    if not text.strip() or not text.isprintable():
        raise ValueError(f"{quote(value)} must be one line of text, not empty")
    return str(text)


def _read_pattern(value: Any) -> Any:
    if isinstance(value, re.Pattern):
        return value
    text = _text(value)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # "possible nested set" is about future syntax, not an error
            return re.compile(text)
    except re.error as error:
        why = (
            ""
            if isinstance(value, Expanded)
            else f": {error.msg}" + (f" at character {error.pos + 1}" if error.pos is not None else "")
        )
        raise ValueError(f"{quote(value)} is not a regular expression{why}") from None
    except (OverflowError, RecursionError):
        raise ValueError(f"{quote(value)} is not a regular expression: too large") from None


def split_brokers(value: Any) -> Any:
    """`a:9092, b:9092` as a list. The parts of a variable's value stay as confidential as the whole."""
    if not isinstance(value, str):
        return value
    parts = [part.strip() for part in value.split(",")]
    return [Expanded.of(part, value.source) for part in parts] if isinstance(value, Expanded) else parts


def _read_address(value: Any) -> str:
    text = _text(value)
    host, colon, port = text.rpartition(":")
    if not colon or (host.startswith("[") and not host.endswith("]")):
        raise ValueError(f"{quote(value)} has no port (write host:port, such as kafka1:9092)")
    if not re.fullmatch("[0-9]{1,5}", port) or not 1 <= int(port) <= 65535:
        raise ValueError(f"{quote(value)} has no valid port (1 to 65535, such as kafka1:9092)")
    if not _is_host(host):
        raise ValueError(f"{quote(value)} is not host:port (such as kafka1:9092 or [::1]:9092)")
    return str(text)


def _is_host(host: str) -> bool:
    if host.startswith("["):
        try:
            ipaddress.IPv6Address(host[1:-1])
        except ValueError:
            return False
        return True
    return re.fullmatch(r"[A-Za-z0-9_](?:[A-Za-z0-9._-]{0,252})", host) is not None


def _read_url(value: Any) -> str:
    text = _text(value)
    try:
        parts = urlsplit(text)
        complete = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
    except ValueError:  # a port or an IPv6 address it cannot read
        complete = False
    if not complete or not text.isprintable() or " " in text:
        raise ValueError(f"{quote(value)} is not a URL (such as https://host.example.com:8086)")
    if "@" in parts.netloc:
        raise ValueError("a URL cannot contain a user or a password")
    return str(text)


def _read_storage_url(value: Any) -> str:
    text = _read_line(value)
    try:
        password = urlsplit(text).password
    except ValueError:
        password = None
    if password is not None:
        raise ValueError(
            "a URL cannot contain a password (set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment)"
        )
    return text


def _read_path(value: Any, info: ValidationInfo) -> Path:
    text = _text(str(value) if isinstance(value, Path) else value)
    if not text.strip() or not text.isprintable():
        raise ValueError(f"{quote(value)} is not a path")
    if text.startswith("~"):
        raise ValueError(f"{quote(value)}: ~ is not expanded (write the whole path, or use ${{HOME}})")
    folder = (info.context or {}).get("folder", Path())
    return Path(folder / text)


def _read_existing(value: Any, info: ValidationInfo) -> Path:
    path = _read_path(value, info)
    try:
        found, readable = path.is_file(), os.access(path, os.R_OK)
    except OSError as error:
        raise ValueError(f"{quote(value)} cannot be read: {error.strerror}") from None
    if not found:
        raise ValueError(
            f"{quote(value)} is not a file (relative paths start at the directory of the configuration file)"
        )
    if not readable:
        raise ValueError(f"{quote(value)} is not readable by this user")
    return path


def _read_secret(value: Any, info: ValidationInfo) -> SecretStr:
    if isinstance(value, SecretStr):
        return value
    if not isinstance(value, Expanded) or not value.only_references:
        other = f"{info.field_name}_file"
        raise ValueError(f"secrets are not allowed in this file: use a variable, ${{NAME}}, or {other}")
    if not value:
        raise ValueError(f"{quote(value)} is empty")
    return SecretStr(str(value))


def _read_secret_file(value: Any, info: ValidationInfo) -> SecretFile:
    if isinstance(value, SecretFile):
        return value
    path = _read_existing(value, info)
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_SECRET_BYTES + 1)
    except OSError as error:
        raise ValueError(f"{quote(value)} cannot be read: {error.strerror}") from None
    if len(content) > _MAX_SECRET_BYTES:
        raise ValueError(f"{quote(value)} is too large for a secret (at most 64KiB)")
    try:
        secret = content.decode()
    except UnicodeDecodeError:
        raise ValueError(f"{quote(value)} is not UTF-8 text") from None
    secret = secret.removesuffix("\n").removesuffix("\r")  # editors and echo add one line end
    if not secret:
        raise ValueError(f"{quote(value)} is empty")
    return SecretFile(path, SecretStr(secret))


Duration = Annotated[timedelta, PlainValidator(_parser(parse_duration, timedelta)), PlainSerializer(format_duration)]
ByteSize = Annotated[
    int, PlainValidator(_parser(lambda text: Size(parse_size(text)), Size)), PlainSerializer(format_size)
]
Flag = Annotated[bool, PlainValidator(_read_flag)]
Name = Annotated[str, PlainValidator(_read_name)]
Line = Annotated[str, PlainValidator(_read_line)]
Address = Annotated[str, PlainValidator(_read_address)]
Url = Annotated[str, PlainValidator(_read_url)]
StorageUrl = Annotated[str, PlainValidator(_read_storage_url)]
Regex = Annotated[re.Pattern[str], PlainValidator(_read_pattern), PlainSerializer(lambda pattern: pattern.pattern)]
AnyPath = Annotated[Path, PlainValidator(_read_path), PlainSerializer(str)]
ExistingFile = Annotated[Path, PlainValidator(_read_existing), PlainSerializer(str)]
Secret = Annotated[SecretStr, PlainValidator(_read_secret), PlainSerializer(lambda _: MASK)]
FileWithSecret = Annotated[SecretFile, PlainValidator(_read_secret_file), PlainSerializer(lambda file: str(file.path))]

"""TLS and SASL settings, and which keys go together.

Validators are on fields, not on whole sections, and each uses only the fields above it: pydantic then reports all
errors at once, at the right key.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, SecretStr, ValidationInfo, field_validator

from lagwatch.config.section import Section, is_set, is_valid
from lagwatch.config.values import ExistingFile, FileWithSecret, Flag, Line, Secret, SecretFile, Url

Protocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
Mechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI"]

_WITH_PASSWORD = ("username", "password_file", "password")
_USES: dict[str, tuple[str, ...]] = {
    "PLAIN": _WITH_PASSWORD,
    "SCRAM-SHA-256": _WITH_PASSWORD,
    "SCRAM-SHA-512": _WITH_PASSWORD,
    "OAUTHBEARER": ("oauth", "token_file", "token"),
    "GSSAPI": ("kerberos",),
}


def reveal(secret: SecretStr | None, file: SecretFile | None) -> str | None:
    """A secret, from either key."""
    found = file.content if file else secret
    return found.get_secret_value() if found else None


def refuse_both(value: Any, info: ValidationInfo) -> None:
    """Refuse a secret when its `*_file`, the field above it, is also set."""
    if value is not None and is_set(info, f"{info.field_name}_file"):
        raise ValueError(f"set {info.field_name} or {info.field_name}_file, not both")


class Tls(Section):
    """Certificates for SSL and SASL_SSL."""

    ca_file: ExistingFile | None = Field(
        None,
        description="CA certificates (PEM); default: those of the system",
        examples=["ca.pem"],
    )
    cert_file: ExistingFile | None = Field(None, description="client certificate (PEM)", examples=["client.pem"])
    key_file: ExistingFile | None = Field(None, description="private key of cert_file (PEM)", examples=["client.key"])
    key_password_file: FileWithSecret | None = Field(
        None, description="file with the password of key_file", examples=["key-password"]
    )
    key_password: Secret | None = Field(
        None, description="or the password from a variable", examples=["${KEY_PASSWORD}"]
    )
    crl_file: ExistingFile | None = Field(None, description="certificate revocation list (PEM)", examples=["crl.pem"])
    check_hostname: Flag = Field(True, description="whether the certificate must match the broker's host")

    @field_validator("key_file")
    @classmethod
    def _goes_with_certificate(cls, value: Any, info: ValidationInfo) -> Any:
        if is_valid(info, "cert_file") and (value is None) == is_set(info, "cert_file"):
            have, lack = ("cert_file", "key_file") if value is None else ("key_file", "cert_file")
            raise ValueError(f"{have} is set without {lack}: set both or neither")
        return value

    @field_validator("key_password_file", "key_password")
    @classmethod
    def _goes_with_key(cls, value: Any, info: ValidationInfo) -> Any:
        if value is not None and is_valid(info, "key_file") and not is_set(info, "key_file"):
            raise ValueError(f"{info.field_name} is set without key_file")
        if info.field_name == "key_password":
            refuse_both(value, info)
        return value

    def reveal_key_password(self) -> str | None:
        """The password of the key, from either key of the file."""
        return reveal(self.key_password, self.key_password_file)


class OAuth(Section):
    """The token endpoint of OAUTHBEARER, with the client credentials grant."""

    token_url: Url = Field(description="token endpoint", examples=["https://login.example.com/token"])
    client_id: Line = Field(description="client id", examples=["lagwatch"])
    client_secret_file: FileWithSecret | None = Field(
        None, description="file with the client secret", examples=["client-secret"]
    )
    client_secret: Secret | None = Field(
        None, description="or the client secret from a variable", examples=["${CLIENT_SECRET}"]
    )
    scope: Line | None = Field(None, description="scope to request, if the endpoint requires one", examples=["kafka"])

    @field_validator("client_secret")
    @classmethod
    def _has_one_secret(cls, value: Any, info: ValidationInfo) -> Any:
        refuse_both(value, info)
        if value is None and is_valid(info, "client_secret_file") and not is_set(info, "client_secret_file"):
            raise ValueError("is missing: set client_secret_file or client_secret")
        return value

    def reveal_client_secret(self) -> str | None:
        """The client secret, from either key."""
        return reveal(self.client_secret, self.client_secret_file)


class Kerberos(Section):
    """GSSAPI settings in addition to the Kerberos setup of the host."""

    service_name: Line = Field("kafka", description="service name in the brokers' principal")
    domain_name: Line | None = Field(
        None, description="host name in the principal, if not the broker's address", examples=["kafka.example.com"]
    )


class Sasl(Section):
    """Credentials for SASL_PLAINTEXT and SASL_SSL."""

    mechanism: Mechanism = Field(
        description="PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER or GSSAPI", examples=["SCRAM-SHA-512"]
    )
    username: Line | None = Field(None, description="user name, for PLAIN and SCRAM", examples=["lagwatch"])
    password_file: FileWithSecret | None = Field(
        None, description="file with the password", examples=["kafka-password"]
    )
    password: Secret | None = Field(None, description="or the password from a variable", examples=["${KAFKA_PASSWORD}"])
    oauth: OAuth | None = Field(None, description="for OAUTHBEARER: client credentials grant")
    token_file: ExistingFile | None = Field(
        None, description="or a file with a token, read at each connection", examples=["kafka-token"]
    )
    token: Secret | None = Field(None, description="or a token from a variable", examples=["${KAFKA_TOKEN}"])
    kerberos: Kerberos | None = Field(None, description="for GSSAPI")

    @field_validator("username", "password_file", "password", "oauth", "token_file", "token", "kerberos")
    @classmethod
    def _fits_the_mechanism(cls, value: Any, info: ValidationInfo) -> Any:
        mechanism = info.data.get("mechanism")
        if mechanism is None:
            return value
        uses = _USES[mechanism]
        if value is not None and info.field_name not in uses:
            raise ValueError(f"{mechanism} does not use {info.field_name} (it uses {', '.join(uses)})")
        if value is None and info.field_name == "username" and "username" in uses:
            raise ValueError(f"is missing: {mechanism} needs it")
        return value

    @field_validator("password")
    @classmethod
    def _has_one_password(cls, value: Any, info: ValidationInfo) -> Any:
        refuse_both(value, info)
        mechanism, no_file = info.data.get("mechanism"), info.data.get("password_file", "failed") is None
        if value is None and no_file and "password" in _USES.get(str(mechanism), ()):
            raise ValueError(f"is missing: {mechanism} needs password_file or password")
        return value

    @field_validator("token")
    @classmethod
    def _has_one_token(cls, value: Any, info: ValidationInfo) -> Any:
        if info.data.get("mechanism") == "OAUTHBEARER" and is_valid(info, "oauth", "token_file"):
            set_keys = sum([value is not None, is_set(info, "oauth"), is_set(info, "token_file")])
            if set_keys != 1:
                count = "none" if set_keys == 0 else str(set_keys)
                raise ValueError(f"OAUTHBEARER needs exactly one of oauth, token_file and token; {count} set")
        return value

    def reveal_password(self) -> str | None:
        """The password, from either key."""
        return reveal(self.password, self.password_file)


class SecuritySettings(Section):
    """TLS and SASL of connections to the brokers."""

    protocol: Protocol = Field("PLAINTEXT", description="PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL")
    tls: Tls | None = Field(None, description="certificates, for SSL and SASL_SSL")
    sasl: Sasl | None = Field(None, description="credentials, for SASL_PLAINTEXT and SASL_SSL")

    @field_validator("tls", "sasl")
    @classmethod
    def _fits_the_protocol(cls, value: Any, info: ValidationInfo) -> Any:
        protocol, part = info.data.get("protocol"), "SSL" if info.field_name == "tls" else "SASL"
        if protocol is None:
            return value
        if value is not None and part not in protocol:
            raise ValueError(f"protocol {protocol} does not use {info.field_name} (did you mean protocol: SASL_SSL?)")
        if value is None and info.field_name == "sasl" and "SASL" in protocol:
            raise ValueError(f"is missing: protocol {protocol} needs it")
        return value

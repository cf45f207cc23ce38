"""The listeners and settings of a secured cluster on loopback.

The internal listener stays open: nodes, tools and tests use it as super user. In addition every broker has one listener
per way of authentication:

| listener       | credentials of a client                                                        |
|----------------|--------------------------------------------------------------------------------|
| SASL_SSL       | a SCRAM-SHA-256, SCRAM-SHA-512 or PLAIN password, over TLS                      |
| SASL_PLAINTEXT | the same without TLS                                                           |
| SSL            | a certificate                                                                  |

Kafka's own authorizer decides what an authenticated user may do: nothing until an ACL allows it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lagwatch.demo.tls_files import TlsFiles

PROTOCOLS: Mapping[str, str] = {"SASL_SSL": "SASL_SSL", "SASL_PLAINTEXT": "SASL_PLAINTEXT", "SSL": "SSL"}
MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN")


@dataclass(frozen=True, slots=True)
class ClusterSecurity:
    """Settings that are fixed before the cluster starts. SCRAM users can be added later, PLAIN users cannot.

    `certificate_name` is the name in the client certificate; its principal is `User:CN=<name>`.
    """

    plain_users: Mapping[str, str] = field(default_factory=dict)
    certificate_name: str = "lagwatch"


def security_settings(security: ClusterSecurity, tls: TlsFiles) -> dict[str, str]:
    """The security settings of every node; controllers authorize too."""
    settings = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(tls.broker),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(tls.ca),
        "listener.name.ssl.ssl.client.auth": "required",
    }
    scram = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    for listener in ("sasl_ssl", "sasl_plaintext"):
        prefix = f"listener.name.{listener}"
        settings |= {
            f"{prefix}.sasl.enabled.mechanisms": ",".join(MECHANISMS),
            f"{prefix}.scram-sha-256.sasl.jaas.config": scram,
            f"{prefix}.scram-sha-512.sasl.jaas.config": scram,
            f"{prefix}.plain.sasl.jaas.config": plain_logins(security.plain_users),
        }
    return settings


def plain_logins(users: Mapping[str, str]) -> str:
    """The PLAIN users as a JAAS line; quotes and backslashes in passwords are escaped."""
    escape = str.maketrans({"\\": "\\\\", '"': '\\"'})
    known = "".join(f' user_{name}="{password.translate(escape)}"' for name, password in users.items())
    return f"org.apache.kafka.common.security.plain.PlainLoginModule required{known};"

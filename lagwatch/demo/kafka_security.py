"""A secured cluster on loopback: who may log in enters, the listeners and settings of its nodes leave.

Beside the internal listener, which stays open because the nodes, the tools and the tests use it as super user, every
broker then has one listener for each way a client may have to come in:

| listener       | what a client shows                                                            |
|----------------|--------------------------------------------------------------------------------|
| SASL_SSL       | a SCRAM-SHA-256, SCRAM-SHA-512 or PLAIN password, over TLS                      |
| SASL_PLAINTEXT | the same without TLS                                                           |
| SSL            | a certificate                                                                  |

What a user who came in may do is decided by Kafka's own authorizer: nothing, until an ACL allows it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lagwatch.demo.tls_files import TlsFiles

PROTOCOLS: Mapping[str, str] = {"SASL_SSL": "SASL_SSL", "SASL_PLAINTEXT": "SASL_PLAINTEXT", "SSL": "SSL"}
MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN")


@dataclass(frozen=True, slots=True)
class ClusterSecurity:
    """What is fixed before the cluster starts. SCRAM users are added while it runs; PLAIN knows only these.

    `certificate_name` is the name in the client certificate; its principal is `User:CN=<name>`.
    """

    plain_users: Mapping[str, str] = field(default_factory=dict)
    certificate_name: str = "lagwatch"


def security_settings(security: ClusterSecurity, tls: TlsFiles) -> dict[str, str]:
    """The settings every node gets; controllers authorize too."""
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
    """The users of the PLAIN mechanism as a line of JAAS; quotes and backslashes in passwords are escaped."""
    escape = str.maketrans({"\\": "\\\\", '"': '\\"'})
    known = "".join(f' user_{name}="{password.translate(escape)}"' for name, password in users.items())
    return f"org.apache.kafka.common.security.plain.PlainLoginModule required{known};"

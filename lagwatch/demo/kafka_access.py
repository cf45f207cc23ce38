"""Manages users and ACLs of a secured cluster on loopback.

Each call returns once every live broker has applied the change; Kafka itself responds as soon as the controller has.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from kafka.admin import (
    ACL,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ResourcePattern,
    ResourceType,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from kafka.errors import NoError, for_code
from kafka.protocol.admin import DescribeAclsRequest, DescribeUserScramCredentialsRequest

from lagwatch.demo.kafka_admin import KafkaAdmin, until_ready
from lagwatch.errors import LagwatchError

CLUSTER_RESOURCE = "kafka-cluster"  # the only name a resource of type CLUSTER can have

_SCRAM = (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512)

# A password cannot be read back, but its iterations can: a new number each time shows which password is in force.
_iterations = itertools.count(4096)


@dataclass(frozen=True, slots=True)
class AclBinding:
    """A permission of a principal, in Kafka's terms: `AclBinding("User:lagwatch", "DESCRIBE", "TOPIC", "*")`."""

    principal: str
    operation: str
    resource_type: str
    name: str
    pattern: str = "LITERAL"
    permission: str = "ALLOW"

    def to_acl(self) -> Any:
        """The same for kafka-python's admin client."""
        resource = ResourcePattern(ResourceType[self.resource_type], self.name, ACLResourcePatternType[self.pattern])
        return ACL(self.principal, "*", ACLOperation[self.operation], ACLPermissionType[self.permission], resource)


class KafkaAccess(KafkaAdmin):
    """The calls that grant and revoke access."""

    def add_user(self, name: str, password: str) -> None:
        """Create a user for both SCRAM mechanisms, or change the user's password."""
        iterations = next(_iterations)
        self._alter_user(UserScramCredentialUpsertion(name, kind, password, iterations=iterations) for kind in _SCRAM)
        self._wait_for_user(name, {(kind, iterations) for kind in _SCRAM})

    def remove_user(self, name: str) -> None:
        """Delete the SCRAM credentials of a user."""
        self._alter_user(UserScramCredentialDeletion(name, kind) for kind in _SCRAM)
        self._wait_for_user(name, set())

    def add_acl(self, binding: AclBinding) -> None:
        """Add an ACL."""
        acl = binding.to_acl()
        with self.admin() as admin:
            refused = admin.create_acls([acl])["failed"]
            if refused:
                raise LagwatchError(f"Kafka refused {acl}: {refused[0].__name__}")
            self._wait_for_every_broker(
                admin, _describe_request(acl), lambda response: bool(response.resources), str(acl)
            )

    def remove_acl(self, binding: AclBinding) -> None:
        """Remove an ACL. Raises LagwatchError if it does not exist."""
        acl = binding.to_acl()
        with self.admin() as admin:
            [(_, removed, error)] = admin.delete_acls([acl])
            if error is not NoError or not removed:
                reason = "it does not exist" if error is NoError else error.__name__
                raise LagwatchError(f"Kafka did not remove {acl}: {reason}")
            self._wait_for_every_broker(
                admin, _describe_request(acl), lambda response: not response.resources, str(acl)
            )

    def _alter_user(self, changes: Iterable[Any]) -> None:
        with self.admin() as admin:
            for change in changes:  # one request each: Kafka refuses a request that names a user twice
                problem = admin.alter_user_scram_credentials([change])[change.user]
                if problem is not None:
                    raise LagwatchError(f"Kafka refused {change}: {problem}")

    def _wait_for_user(self, name: str, wanted: set[tuple[int, int]]) -> None:
        def is_applied(response: Any) -> bool:
            return wanted == {
                (found.mechanism, found.iterations) for user in response.results for found in user.credential_infos
            }

        request = DescribeUserScramCredentialsRequest(users=[(name,)])
        with self.admin() as admin:
            self._wait_for_every_broker(admin, request, is_applied, f"user {name}")

    def _wait_for_every_broker(self, admin: Any, request: Any, is_applied: Callable[[Any], bool], what: str) -> None:
        for broker in self.live_brokers:

            def has_applied(broker: int = broker) -> bool | None:
                # The public calls use any broker; only the client's connection manager can address a given one.
                response = admin._manager.run(admin._manager.send, request, broker)  # noqa: SLF001
                problem = for_code(response.error_code)
                if problem is not NoError:
                    raise problem(response.error_message)
                return is_applied(response) or None

            until_ready(has_applied, f"broker {broker} has not applied {what}")


def _describe_request(acl: Any) -> Any:
    return DescribeAclsRequest(
        resource_type_filter=acl.resource_pattern.resource_type,
        resource_name_filter=acl.resource_pattern.resource_name,
        pattern_type_filter=acl.resource_pattern.pattern_type,
        principal_filter=acl.principal,
        host_filter=acl.host,
        operation=acl.operation,
        permission_type=acl.permission_type,
    )

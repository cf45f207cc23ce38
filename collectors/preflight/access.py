"""Derives the check's steps about permissions from the brokers' responses to the agent's requests. Pure.

Some requests are refused with an error. Others return less: Metadata, ListGroups and OffsetFetch silently leave out what
the user may not describe. docs/acls.md has the measurements.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from collectors.kafka_client.error_codes import (
    CLUSTER_AUTHORIZATION_FAILED,
    GROUP_AUTHORIZATION_FAILED,
    TOPIC_AUTHORIZATION_FAILED,
)
from collectors.kafka_client.requests import describe_error_code, list_names
from collectors.preflight.steps import Step, StepState, plural
from lagwatch.kafka_names import OFFSETS_TOPIC

DESCRIBE = 8  # Kafka's code of the operation in authorized operations (KIP-430)
_SILENTLY = "without an error"

_Omission = tuple[str, Sequence["Acl"]]
"""What a response may leave out, as a message, and the ACLs that complete it."""


@dataclass(frozen=True, slots=True)
class Acl:
    """A permission: `Describe on Topic`."""

    operation: str
    resource: str
    name: str = "*"

    def __str__(self) -> str:
        return f"{self.operation} on {self.resource}{'' if self.name == '*' else f' {self.name}'}"

    def command(self, principal: str, bootstrap: str) -> str:
        """The command that grants it, for all topics or groups unless it has a name."""
        resource = "--cluster" if self.resource == "Cluster" else f"--{self.resource.lower()} {shlex.quote(self.name)}"
        return (
            f"kafka-acls.sh --bootstrap-server {bootstrap} --command-config admin.properties"
            f" --add --allow-principal {shlex.quote(principal)} --operation {self.operation} {resource}"
        )


DESCRIBE_TOPIC = Acl("Describe", "Topic")
DESCRIBE_GROUP = Acl("Describe", "Group")
DESCRIBE_CLUSTER = Acl("Describe", "Cluster")
DESCRIBE_CONFIGS = Acl("DescribeConfigs", "Topic")
LEAST_ACLS = (DESCRIBE_CLUSTER, DESCRIBE_GROUP, DESCRIBE_TOPIC, DESCRIBE_CONFIGS)


@dataclass(frozen=True, slots=True)
class Api:
    """A request the agent sends: the ACLs it needs, by the error code if they are missing, and the data it returns."""

    name: str
    returns: str
    of: str  # the subject of its response, as a noun
    acls: Mapping[int, Acl] = field(default_factory=dict)
    optional: bool = False  # whether the agent does without it

    @property
    def needs(self) -> str:
        """Its ACLs as text."""
        return ", ".join(str(acl) for acl in self.acls.values())


APIS = (
    Api("DescribeCluster", "whether lists may be filtered, the controller of a ZooKeeper cluster", "cluster"),
    Api(
        "Metadata",
        "topics, partitions, leaders, replicas, and with them the lag on these topics",
        "topic",
        {TOPIC_AUTHORIZATION_FAILED: DESCRIBE_TOPIC},
    ),
    Api("ListGroups", "the list of all groups", "group", {CLUSTER_AUTHORIZATION_FAILED: DESCRIBE_CLUSTER}),
    Api(
        "OffsetFetch",
        "committed offsets, and with them lag and status",
        "group",
        {GROUP_AUTHORIZATION_FAILED: DESCRIBE_GROUP, TOPIC_AUTHORIZATION_FAILED: DESCRIBE_TOPIC},
    ),
    Api("DescribeGroups", "members of classic groups", "group", {GROUP_AUTHORIZATION_FAILED: DESCRIBE_GROUP}),
    Api(
        "ConsumerGroupDescribe",
        "members of groups of the new protocol (KIP-848)",
        "group",
        {GROUP_AUTHORIZATION_FAILED: DESCRIBE_GROUP, TOPIC_AUTHORIZATION_FAILED: DESCRIBE_TOPIC},
    ),
    Api(
        "ListOffsets",
        "start and end offsets, and with them lag",
        "partition",
        {TOPIC_AUTHORIZATION_FAILED: DESCRIBE_TOPIC},
    ),
    Api(
        "DescribeConfigs",
        "min.insync.replicas and retention, and with them under_min_isr and the loss forecast",
        "topic",
        {TOPIC_AUTHORIZATION_FAILED: DESCRIBE_CONFIGS},
    ),
    Api(
        "DescribeLogDirs",
        "sizes of topics and brokers, free disk, and whether the list of topics is complete",
        "broker",
        {CLUSTER_AUTHORIZATION_FAILED: DESCRIBE_CLUSTER},
    ),
    Api("DescribeQuorum", "the controller and its quorum", "quorum", {CLUSTER_AUTHORIZATION_FAILED: DESCRIBE_CLUSTER}),
)
READ_COMMITS = Api(
    "Fetch",
    "every commit with its time: commits then come from polls, which detect a stalled group later",
    "partition",
    {TOPIC_AUTHORIZATION_FAILED: Acl("Read", "Topic", OFFSETS_TOPIC)},
)
READ_COMMITS_IF_ALLOWED = replace(READ_COMMITS, optional=True)
API = {api.name: api for api in (*APIS, READ_COMMITS)}


@dataclass(slots=True)
class AccessResults:
    """The results of all requests.

    `answered` counts successes by API. `errors` holds names by API and error code, `request_errors` the reasons of
    requests without a response, `not_needed` why an API was not requested. `disk_topics` are the topics with files on a
    broker, which Kafka returns regardless of permissions on topics; None if that request failed.
    """

    operations: frozenset[int] = frozenset()
    topics: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    disk_topics: frozenset[str] | None = None
    answered: dict[str, int] = field(default_factory=dict)
    errors: dict[str, dict[int, list[str]]] = field(default_factory=dict)
    request_errors: dict[str, list[str]] = field(default_factory=dict)
    not_needed: dict[str, str] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    def hidden_topics(self) -> list[str]:
        """Topics that have files but are not in the metadata."""
        return sorted((self.disk_topics or frozenset()) - self.topics)

    def has_transient_errors(self) -> bool:
        """Whether there are errors other than missing permissions, such as a coordinator that is still loading."""
        refusals = {TOPIC_AUTHORIZATION_FAILED, GROUP_AUTHORIZATION_FAILED, CLUSTER_AUTHORIZATION_FAILED}
        return any(code not in refusals for codes in self.errors.values() for code in codes)


def access_steps(results: AccessResults, principal: str, bootstrap: str, apis: Sequence[Api] = APIS) -> list[Step]:
    """A step for each API, in order."""
    return [
        _access_step(api, results, principal, bootstrap).with_duration(results.seconds.get(api.name)) for api in apis
    ]


def _access_step(api: Api, results: AccessResults, principal: str, bootstrap: str) -> Step:
    if api.name in results.not_needed:
        return Step(api.name, "", "not tried", results.not_needed[api.name], needs=api.needs)
    errors = results.errors.get(api.name, {})
    missing = {code: names for code, names in errors.items() if code in api.acls}
    if missing:
        message = "; ".join(
            f"refused for {_subjects(api, names)}: {_error_name(code)}" for code, names in missing.items()
        )
        acls = [api.acls[code] for code in missing]
        if api.optional:
            return _missing_acl_step(api, "ok", f"optional, {message}", acls, principal, bootstrap)
        return _missing_acl_step(api, "failed", message, acls, principal, bootstrap)
    if results.request_errors.get(api.name) or api.name not in results.answered:
        message = "; ".join(results.request_errors.get(api.name, [])) or "no answer"
        action = "check the broker's log, or raise --timeout"
        return Step(api.name, "", "failed", message, action, api.needs, api.returns)
    omission = _OMISSIONS[api.name](results) if api.name in _OMISSIONS else None
    if omission:
        message, lacking = omission
        return _missing_acl_step(api, "warning", message, lacking, principal, bootstrap)
    if errors:
        message = "; ".join(f"{_subjects(api, names)}: {describe_error_code(code)}" for code, names in errors.items())
        action = "not a missing ACL, and possibly temporary: run the check again"
        return Step(api.name, "", "warning", message, action, api.needs, api.returns)
    return Step(api.name, "", "ok", _ok_text(api, results), needs=api.needs)


def _missing_acl_step(
    api: Api, state: StepState, message: str, acls: Sequence[Acl], principal: str, bootstrap: str
) -> Step:
    action = "\n".join(acl.command(principal, bootstrap) for acl in acls) or "check again"
    needs = ", ".join(str(acl) for acl in acls) or api.needs
    return Step(api.name, "", state, message, action, needs, api.returns)


def _subjects(api: Api, names: list[str]) -> str:
    return "the cluster" if api.of in ("cluster", "quorum") else list_names(sorted(names), api.of)


def _error_name(code: int) -> str:
    return describe_error_code(code).partition(":")[0]


def _ok_text(api: Api, results: AccessResults) -> str:
    if api.name == "DescribeCluster":
        may = "may" if DESCRIBE in results.operations else "may not"
        return f"answered; this user {may} Describe the cluster"
    return "answered" if api.of == "quorum" else f"{plural(results.answered.get(api.name, 0), api.of)}"


def _omitted_topics(results: AccessResults) -> _Omission | None:
    listed = f"{plural(len(results.topics), 'topic')} listed"
    hidden = results.hidden_topics()
    if hidden:
        missing = f"{list_names(hidden, 'topic')} with files on the brokers left out"
        return f"{listed}; {missing}, {_SILENTLY}: Kafka lists only topics this user may describe", (DESCRIBE_TOPIC,)
    if results.disk_topics is None:
        filtered = f"Kafka leaves out, {_SILENTLY}, topics this user may not describe"
        message = f"{listed}; the list may be filtered: {filtered}, and DescribeLogDirs, which would show them, failed"
        return message, (*(() if results.topics else (DESCRIBE_TOPIC,)), *_cluster_describe(results))
    return None


def _omitted_groups(results: AccessResults) -> _Omission | None:
    if DESCRIBE in results.operations:
        return None
    listed = f"{plural(len(results.groups), 'group')} listed"
    filtered = f"without Describe on the cluster Kafka shows only groups this user may describe, {_SILENTLY}"
    acls = (*(() if results.groups else (DESCRIBE_GROUP,)), DESCRIBE_CLUSTER)
    return f"{listed}; the list may be filtered: {filtered}", acls


def _omitted_commits(results: AccessResults) -> _Omission | None:
    hidden = results.hidden_topics()
    if not hidden and results.disk_topics is not None:
        return None
    returned = f"offsets of {plural(results.answered.get('OffsetFetch', 0), 'group')} returned"
    filtered = f"Kafka leaves out, {_SILENTLY}, commits on topics this user may not describe"
    such = f", such as {hidden[0]}" if hidden else ""
    acls = (DESCRIBE_TOPIC,) if hidden else _cluster_describe(results)
    return f"{returned}; they may be filtered: {filtered}{such}", acls


def _cluster_describe(results: AccessResults) -> tuple[Acl, ...]:
    return () if DESCRIBE in results.operations else (DESCRIBE_CLUSTER,)


_OMISSIONS: Mapping[str, Callable[[AccessResults], _Omission | None]] = {
    "Metadata": _omitted_topics,
    "ListGroups": _omitted_groups,
    "OffsetFetch": _omitted_commits,
}

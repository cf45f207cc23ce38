"""What the answers to the agent's questions say about its permissions. Pure: answers enter, steps leave.

Some questions are refused with an error. Others are answered with less: Metadata, ListGroups and OffsetFetch leave out
what the user may not describe, without saying so. docs/acls.md has what was measured.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from collectors.kafka_client.requests import error_words, some
from collectors.preflight.steps import State, Step, plural
from lagwatch.kafka_names import OFFSETS_TOPIC

DESCRIBE = 8  # Kafka's number of the operation, as authorized operations are told (KIP-430)
TOPIC_REFUSED, GROUP_REFUSED, CLUSTER_REFUSED = 29, 30, 31
_FILTERS = "without saying so"

_LeftOut = tuple[str, Sequence["Acl"]]
"""What may be missing from an answer, in words, and the ACLs that make it whole."""


@dataclass(frozen=True, slots=True)
class Acl:
    """A permission: `Describe on Topic`."""

    operation: str
    resource: str
    name: str = "*"

    def __str__(self) -> str:
        return f"{self.operation} on {self.resource}{'' if self.name == '*' else f' {self.name}'}"

    def command(self, principal: str, bootstrap: str) -> str:
        """The command that gives it, for all topics or groups unless it has a name."""
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
    """A question the agent asks: the ACLs it needs, by the error that tells they are missing, and what it brings."""

    name: str
    brings: str
    of: str  # what its answer is about, as a noun
    acls: Mapping[int, Acl] = field(default_factory=dict)

    @property
    def needs(self) -> str:
        """Its ACLs in words."""
        return ", ".join(str(acl) for acl in self.acls.values())


APIS = (
    Api("DescribeCluster", "whether lists may be filtered, the controller of a ZooKeeper cluster", "cluster"),
    Api(
        "Metadata",
        "topics, partitions, leaders, replicas, and with them the lag on these topics",
        "topic",
        {TOPIC_REFUSED: DESCRIBE_TOPIC},
    ),
    Api("ListGroups", "the list of all groups", "group", {CLUSTER_REFUSED: DESCRIBE_CLUSTER}),
    Api(
        "OffsetFetch",
        "committed offsets, and with them lag and status",
        "group",
        {GROUP_REFUSED: DESCRIBE_GROUP, TOPIC_REFUSED: DESCRIBE_TOPIC},
    ),
    Api("DescribeGroups", "members of classic groups", "group", {GROUP_REFUSED: DESCRIBE_GROUP}),
    Api(
        "ConsumerGroupDescribe",
        "members of groups of the new protocol (KIP-848)",
        "group",
        {GROUP_REFUSED: DESCRIBE_GROUP, TOPIC_REFUSED: DESCRIBE_TOPIC},
    ),
    Api("ListOffsets", "start and end offsets, and with them lag", "partition", {TOPIC_REFUSED: DESCRIBE_TOPIC}),
    Api(
        "DescribeConfigs",
        "min.insync.replicas and retention, and with them under_min_isr and the loss forecast",
        "topic",
        {TOPIC_REFUSED: DESCRIBE_CONFIGS},
    ),
    Api(
        "DescribeLogDirs",
        "sizes of topics and brokers, free disk, and whether the list of topics is whole",
        "broker",
        {CLUSTER_REFUSED: DESCRIBE_CLUSTER},
    ),
    Api("DescribeQuorum", "the controller and its quorum", "quorum", {CLUSTER_REFUSED: DESCRIBE_CLUSTER}),
)
READ_COMMITS = Api(
    "Fetch",
    "commits with their times (commits: topic); without it they are judged from polls",
    "partition",
    {TOPIC_REFUSED: Acl("Read", "Topic", OFFSETS_TOPIC)},
)
API = {api.name: api for api in (*APIS, READ_COMMITS)}


@dataclass(slots=True)
class Heard:
    """What the brokers answered.

    Errors are kept by API and code, with the names of what they are about. `disk_topics` are the topics that have
    files on a broker, which is told without regard to permissions on topics; None where that could not be asked.
    """

    operations: frozenset[int] = frozenset()
    topics: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    disk_topics: frozenset[str] | None = None
    answered: dict[str, int] = field(default_factory=dict)
    refused: dict[str, dict[int, list[str]]] = field(default_factory=dict)
    unasked: dict[str, list[str]] = field(default_factory=dict)
    needless: dict[str, str] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    def hidden_topics(self) -> list[str]:
        """Topics that have files but are not in the list."""
        return sorted((self.disk_topics or frozenset()) - self.topics)

    def may_pass(self) -> bool:
        """Whether there are errors that are no refusals, such as a coordinator that is still loading."""
        refusals = {TOPIC_REFUSED, GROUP_REFUSED, CLUSTER_REFUSED}
        return any(code not in refusals for codes in self.refused.values() for code in codes)


def judge_access(heard: Heard, principal: str, bootstrap: str, apis: Sequence[Api] = APIS) -> list[Step]:
    """A step for each API, in their order."""
    return [_judge(api, heard, principal, bootstrap).took(heard.seconds.get(api.name)) for api in apis]


def _judge(api: Api, heard: Heard, principal: str, bootstrap: str) -> Step:
    if api.name in heard.needless:
        return Step(api.name, "", "not tried", heard.needless[api.name], needs=api.needs)
    refused = heard.refused.get(api.name, {})
    missing = {code: names for code, names in refused.items() if code in api.acls}
    if missing:
        says = "; ".join(f"refused for {_things(api, names)}: {_error_name(code)}" for code, names in missing.items())
        acls = [api.acls[code] for code in missing]
        return _lacking(api, "failed", says, acls, principal, bootstrap)
    if heard.unasked.get(api.name) or api.name not in heard.answered:
        says = "; ".join(heard.unasked.get(api.name, [])) or "no answer"
        do = "look at the broker's log, or give more time with --timeout"
        return Step(api.name, "", "failed", says, do, api.needs, api.brings)
    left_out = _LEFT_OUT[api.name](heard) if api.name in _LEFT_OUT else None
    if left_out:
        says, lacking = left_out
        return _lacking(api, "warning", says, lacking, principal, bootstrap)
    if refused:
        says = "; ".join(f"{_things(api, names)}: {error_words(code)}" for code, names in refused.items())
        do = "this is no missing ACL, and may pass: check again"
        return Step(api.name, "", "warning", says, do, api.needs, api.brings)
    return Step(api.name, "", "ok", _fine(api, heard), needs=api.needs)


def _lacking(api: Api, state: State, says: str, acls: Sequence[Acl], principal: str, bootstrap: str) -> Step:
    do = "\n".join(acl.command(principal, bootstrap) for acl in acls) or "check again"
    needs = ", ".join(str(acl) for acl in acls) or api.needs
    return Step(api.name, "", state, says, do, needs, api.brings)


def _things(api: Api, names: list[str]) -> str:
    return "the cluster" if api.of in ("cluster", "quorum") else some(sorted(names), api.of)


def _error_name(code: int) -> str:
    return error_words(code).partition(":")[0]


def _fine(api: Api, heard: Heard) -> str:
    if api.name == "DescribeCluster":
        may = "may" if DESCRIBE in heard.operations else "may not"
        return f"answered; this user {may} Describe the cluster"
    return "answered" if api.of == "quorum" else f"{plural(heard.answered.get(api.name, 0), api.of)}"


def _topics_left_out(heard: Heard) -> _LeftOut | None:
    seen = f"{plural(len(heard.topics), 'topic')} seen"
    hidden = heard.hidden_topics()
    if hidden:
        left_out = f"{some(hidden, 'topic')} with files on the brokers left out"
        return f"{seen}; {left_out}, {_FILTERS}: Kafka lists only topics this user may describe", (DESCRIBE_TOPIC,)
    if heard.disk_topics is None:
        filtered = f"Kafka leaves out, {_FILTERS}, topics this user may not describe"
        says = f"{seen}; the list may be filtered: {filtered}, and the brokers' disks, which would tell, were not seen"
        return says, (*(() if heard.topics else (DESCRIBE_TOPIC,)), *_cluster_describe(heard))
    return None


def _groups_left_out(heard: Heard) -> _LeftOut | None:
    if DESCRIBE in heard.operations:
        return None
    seen = f"{plural(len(heard.groups), 'group')} seen"
    filtered = f"without Describe on the cluster Kafka shows only groups this user may describe, {_FILTERS}"
    acls = (*(() if heard.groups else (DESCRIBE_GROUP,)), DESCRIBE_CLUSTER)
    return f"{seen}; the list may be filtered: {filtered}", acls


def _commits_left_out(heard: Heard) -> _LeftOut | None:
    hidden = heard.hidden_topics()
    if not hidden and heard.disk_topics is not None:
        return None
    seen = f"offsets of {plural(heard.answered.get('OffsetFetch', 0), 'group')} seen"
    filtered = f"Kafka leaves out, {_FILTERS}, commits on topics this user may not describe"
    such = f", such as {hidden[0]}" if hidden else ""
    acls = (DESCRIBE_TOPIC,) if hidden else _cluster_describe(heard)
    return f"{seen}; they may be filtered: {filtered}{such}", acls


def _cluster_describe(heard: Heard) -> tuple[Acl, ...]:
    return () if DESCRIBE in heard.operations else (DESCRIBE_CLUSTER,)


_LEFT_OUT: Mapping[str, Callable[[Heard], _LeftOut | None]] = {
    "Metadata": _topics_left_out,
    "ListGroups": _groups_left_out,
    "OffsetFetch": _commits_left_out,
}

"""What one poll of a Kafka cluster heard, before it becomes rows."""

from __future__ import annotations

from dataclasses import dataclass, field

from collectors.kafka_decode.metadata import Metadata
from collectors.kafka_decode.offsets import CommittedOffsets, Offsets


@dataclass(frozen=True, slots=True)
class ListedGroup:
    """A group as its coordinator lists it. `state` and `type` are empty where an old broker does not tell."""

    group: str
    state: str
    type: str
    protocol_type: str
    coordinator: int


@dataclass(frozen=True, slots=True)
class DescribedMember:
    """A live member and the partitions assigned to it."""

    member: str
    client_id: str
    host: str
    assignment: tuple[tuple[str, tuple[int, ...]], ...]

    @property
    def partitions(self) -> int:
        """How many partitions are assigned to it."""
        return sum(len(partitions) for _, partitions in self.assignment)


@dataclass(slots=True)
class PollAnswers:
    """Everything one poll heard.

    `members` has an entry for each group whose members are known, empty ones included. `asked` are the groups whose
    commits arrived. `complete` means that a group not listed here does not exist, rather than that nobody was asked.
    """

    metadata: Metadata
    groups: list[ListedGroup] = field(default_factory=list)
    members: dict[str, list[DescribedMember]] = field(default_factory=dict)
    asked: set[str] = field(default_factory=set)
    commits: list[CommittedOffsets] = field(default_factory=list)
    starts: list[Offsets] = field(default_factory=list)
    ends: list[Offsets] = field(default_factory=list)
    stables: list[Offsets] = field(default_factory=list)
    complete: bool = True

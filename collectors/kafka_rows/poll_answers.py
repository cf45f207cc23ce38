"""The decoded responses of one poll, before they become rows."""

from __future__ import annotations

from dataclasses import dataclass, field

from collectors.kafka_decode.metadata import Metadata
from collectors.kafka_decode.offsets import CommittedOffsets, ListedOffsets


@dataclass(frozen=True, slots=True)
class ListedGroup:
    """A group as its coordinator lists it. `state` and `type` are empty if an old broker does not return them."""

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
        """The number of partitions assigned to it."""
        return sum(len(partitions) for _, partitions in self.assignment)


@dataclass(slots=True)
class PollAnswers:
    """All responses of one poll.

    `members` has an entry for each group whose members were returned, also if it has none. `groups_with_commits` are the
    groups whose commits arrived. `complete`: a group that is not listed does not exist, as every coordinator responded.
    """

    metadata: Metadata
    groups: list[ListedGroup] = field(default_factory=list)
    members: dict[str, list[DescribedMember]] = field(default_factory=dict)
    groups_with_commits: set[str] = field(default_factory=set)
    commits: list[CommittedOffsets] = field(default_factory=list)
    starts: list[ListedOffsets] = field(default_factory=list)
    ends: list[ListedOffsets] = field(default_factory=list)
    stables: list[ListedOffsets] = field(default_factory=list)
    complete: bool = True

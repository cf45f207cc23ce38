"""Commits of one run as a batch of the catalogue."""

from __future__ import annotations

import numpy as np

from collectors.kafka_decode.offsets_topic import WHOLE_GROUP, CommitRows, Keys
from collectors.kafka_decode.reader import CodeColumn
from lagwatch.batch import Batch, Column, Masked, Texts, make_batch
from lagwatch.catalogue import COMMIT
from lagwatch.columns import distinct


def without_conversions(rows: CommitRows, keys: Keys) -> CommitRows:
    """The commits, and of the rows about groups only those that tell that the group is gone.

    A group that changes between the old and the new protocol has its old record deleted and a new one written at once;
    its commits stay. So a group is gone only where the last of its records is a deletion.
    """
    about_group = keys.partitions()[rows.key] == WHOLE_GROUP
    if not about_group.any():
        return rows
    newest: dict[int, int] = {}
    of_key = keys.groups()[0]
    places = np.flatnonzero(about_group)
    for row in places[np.argsort(rows.order[places], kind="stable")].tolist():
        newest[int(of_key[rows.key[row]])] = row
    gone = [row for row in newest.values() if not rows.known[row]]
    kept = ~about_group
    kept[gone] = True
    return rows.at(kept)


def commit_batch(cluster: str, at_ms: int, rows: CommitRows, keys: Keys) -> Batch:
    """The rows in the schema of `commit`."""
    groups, topics = keys.groups(), keys.topics()
    columns: dict[str, Column] = {
        "group": _texts(groups[0][rows.key], groups[1]),
        "topic": _texts(topics[0][rows.key], topics[1]),
        "partition": keys.partitions()[rows.key],
        "committed_offset": Masked(rows.offset, rows.known),
        "commit_time_ms": rows.time_ms,
        "order": rows.order,
    }
    return make_batch(COMMIT, cluster, at_ms, columns)


def _texts(codes: CodeColumn, names: list[str]) -> Texts:
    """Only the names that occur."""
    if not len(codes):
        return Texts(codes, [])
    found, positions = distinct(codes)
    return Texts(positions, [names[code] for code in found])

"""Builds the `commit` batch from the rows decoded in one run."""

from __future__ import annotations

import numpy as np

from collectors.kafka_decode.offsets_topic import WHOLE_GROUP, CommitRows, KeyTable
from collectors.kafka_decode.reader import CodeColumn
from lagwatch.batch import Batch, Column, Masked, Texts, make_batch
from lagwatch.catalogue import COMMIT
from lagwatch.columns import distinct


def without_conversions(rows: CommitRows, keys: KeyTable) -> CommitRows:
    """All commits, and of the rows about groups only those of deleted groups.

    When a group converts between the classic and the new protocol, its old record is deleted and a new one written at
    once; its commits stay. So a group is deleted only if its last record is a deletion.
    """
    about_group = keys.partitions()[rows.key] == WHOLE_GROUP
    if not about_group.any():
        return rows
    newest: dict[int, int] = {}
    group_of_key = keys.groups()[0]
    group_rows = np.flatnonzero(about_group)
    for row in group_rows[np.argsort(rows.order[group_rows], kind="stable")].tolist():
        newest[int(group_of_key[rows.key[row]])] = row
    gone = [row for row in newest.values() if not rows.present[row]]
    kept = ~about_group
    kept[gone] = True
    return rows.at(kept)


def commit_batch(cluster: str, at_ms: int, rows: CommitRows, keys: KeyTable) -> Batch:
    """The rows in the schema of `commit`."""
    groups, topics = keys.groups(), keys.topics()
    columns: dict[str, Column] = {
        "group": _texts(groups[0][rows.key], groups[1]),
        "topic": _texts(topics[0][rows.key], topics[1]),
        "partition": keys.partitions()[rows.key],
        "committed_offset": Masked(rows.offset, rows.present),
        "commit_time_ms": rows.time_ms,
        "order": rows.order,
    }
    return make_batch(COMMIT, cluster, at_ms, columns)


def _texts(codes: CodeColumn, names: list[str]) -> Texts:
    """A text column with only the names that occur."""
    if not len(codes):
        return Texts(codes, [])
    found, positions = distinct(codes)
    return Texts(positions, [names[code] for code in found])

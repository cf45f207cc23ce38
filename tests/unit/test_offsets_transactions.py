"""Commits made inside transactions: counted when the transaction is committed, never when it is aborted."""

from __future__ import annotations

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from collectors.kafka_decode.offsets_topic import KeyTable, decode_records
from collectors.kafka_decode.record_columns import read_records
from collectors.kafka_decode.transactions import OpenTransactions
from tests.harness.offsets_records import TRANSACTIONAL, batch, heads_of, marker, offset_key, offset_value

COMMIT, ABORT = "commit", "abort"


class TransactionReader:
    """Reads bytes of a partition as the collector does."""

    def __init__(self, most: int = 1000) -> None:
        self.keys = KeyTable(lambda _: True, lambda _: True)
        self.transactions = OpenTransactions(most)

    def read(self, data: bytes, partition: int = 0) -> list[int]:
        """The orders of what counts now."""
        batches = heads_of(data, partition)
        decoded = decode_records(read_records(data, batches), self.keys)
        parts = self.transactions.resolve(data, batches, decoded.rows, decoded.batch)
        return [order for part in parts for order in part.order.tolist()]


def commits(first: int, count: int = 1, producer: int = -1) -> bytes:
    """Some commits, of a transaction if there is a producer."""
    records = [(offset_key("g", "t", n), offset_value(3, n, 1)) for n in range(count)]
    return batch(first, records, producer=producer, attributes=TRANSACTIONAL if producer >= 0 else 0)


def test_a_committed_transaction_counts_when_its_marker_comes() -> None:
    reader = TransactionReader()
    assert reader.read(commits(0, 2, producer=7)) == []
    assert len(reader.transactions) == 2
    assert reader.read(marker(2, 7, commit=True)) == [0, 1]
    assert len(reader.transactions) == 0


def test_an_aborted_transaction_never_counts() -> None:
    reader = TransactionReader()
    assert reader.read(commits(0, producer=7) + commits(1, producer=7) + marker(2, 7, commit=False)) == []
    assert reader.read(commits(3, producer=7)) == []
    assert reader.read(marker(4, 7, commit=False) + marker(5, 7, commit=True)) == []
    assert len(reader.transactions) == 0


def test_an_open_transaction_delays_no_other_group() -> None:
    reader = TransactionReader()
    assert reader.read(commits(0, producer=7) + commits(1) + commits(2, producer=8) + marker(3, 8, commit=True)) == [
        1,
        2,
    ]
    assert reader.read(commits(4)) == [4]


def test_transactions_of_one_producer_follow_each_other() -> None:
    reader = TransactionReader()
    data = commits(0, producer=7) + marker(1, 7, commit=False) + commits(2, producer=7) + marker(3, 7, commit=True)
    assert reader.read(data + commits(4, producer=7)) == [2]
    assert len(reader.transactions) == 1


def test_a_marker_ends_only_what_is_in_its_own_partition() -> None:
    reader = TransactionReader()
    reader.read(commits(0, producer=7), partition=1)
    reader.read(commits(0, producer=7), partition=2)
    assert reader.read(marker(1, 7, commit=True), partition=2) == [0]
    assert len(reader.transactions) == 1
    reader.transactions.discard(1)
    assert reader.read(marker(1, 7, commit=True), partition=1) == []


def test_transactions_that_never_end_are_given_up_oldest_first() -> None:
    reader = TransactionReader(most=5)
    reader.read(commits(0, 3, producer=1))
    reader.read(commits(3, 2, producer=2))
    assert reader.transactions.dropped == 0
    reader.read(commits(5, 1, producer=3))
    assert (reader.transactions.dropped, len(reader.transactions)) == (3, 3)
    assert reader.read(marker(6, 1, commit=True) + marker(7, 2, commit=True) + marker(8, 3, commit=True)) == [3, 4, 5]


def test_pending_commits_keep_their_meaning_when_keys_are_renumbered() -> None:
    reader = TransactionReader()
    reader.read(commits(0, 3, producer=7))
    before, reader.keys = reader.keys, reader.keys.emptied()
    assert reader.keys[offset_key("other", "t", 0)] == 0
    reader.transactions.renumber(before, reader.keys)
    data = marker(3, 7, commit=True)
    nothing = decode_records(read_records(b"", heads_of(b"")), reader.keys)
    [rows, _] = reader.transactions.resolve(data, heads_of(data), nothing.rows, nothing.batch)
    assert reader.keys.partitions()[rows.key].tolist() == [0, 1, 2]
    assert [reader.keys.groups()[1][code] for code in reader.keys.groups()[0][rows.key]] == ["g"] * 3


steps = st.lists(st.tuples(st.sampled_from(["plain", "within", COMMIT, ABORT]), st.integers(0, 3)), max_size=40)


@settings(deadline=None)
@given(steps, st.lists(st.integers(0, 40), max_size=5))
def test_how_the_bytes_are_split_over_runs_changes_nothing(made: list[tuple[str, int]], cuts: list[int]) -> None:
    expected: list[int] = []
    waiting: dict[int, list[int]] = {}
    parts: list[bytes] = []
    for offset, (what, producer) in enumerate(made):
        if what == "plain":
            expected.append(offset)
            parts.append(commits(offset))
        elif what == "within":
            waiting.setdefault(producer, []).append(offset)
            parts.append(commits(offset, producer=producer))
        else:
            ended = waiting.pop(producer, [])
            expected += ended if what == COMMIT else []
            parts.append(marker(offset, producer, commit=what == COMMIT))
    reader = TransactionReader()
    bounds = sorted({0, len(parts), *(cut for cut in cuts if cut <= len(parts))})
    read = [order for first, last in itertools.pairwise(bounds) for order in reader.read(b"".join(parts[first:last]))]
    assert sorted(read) == sorted(expected)
    assert len(reader.transactions) == sum(map(len, waiting.values()))

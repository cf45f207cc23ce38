"""Shipping polls from the journal to a sink, through outages, bad rows and restarts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lagwatch.batch import Batch, make_batch
from lagwatch.catalogue import TOPIC
from lagwatch.clock import SettableClock
from lagwatch.errors import SinkError
from lagwatch.journal import Journal
from lagwatch.shipping import Shipper, ShippingRate
from tests.harness.sinks import MemorySink

REFUSED = SinkError("connection refused", retriable=True)


class ShipperHarness:
    """A journal, a sink and a shipper on a clock that does not move."""

    def __init__(self, folder: Path) -> None:
        self.clock = SettableClock()
        self.journal = Journal(folder / "journal.db", clock=self.clock)
        self.sink = MemorySink()
        self.rate = ShippingRate(backlog_rows_a_second=100)
        self.shipper = Shipper(self.journal, self.sink, self.clock, self.rate)

    def poll(self, *topics: str, after: float = 10) -> int:
        self.clock.advance(after)
        return self.journal.append([make_batch(TOPIC, "east", self.clock.wall_ms(), {"topic": list(topics)})])

    def ship(self) -> None:
        """Until there is nothing left to do."""
        while self.shipper.step() != self.rate.idle_seconds:
            pass

    def topics(self) -> list[str]:
        return sorted(row["topic"] for row in self.sink.points.values())


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[ShipperHarness]:
    harness = ShipperHarness(tmp_path)
    yield harness
    harness.journal.close()


def test_every_poll_arrives_and_the_cursor_follows(harness: ShipperHarness) -> None:
    for number in range(5):
        harness.poll(f"t{number}")
        harness.ship()
    assert harness.topics() == ["t0", "t1", "t2", "t3", "t4"]
    assert harness.journal.cursor("memory").live == 5


def test_a_sink_that_is_down_loses_nothing_and_gets_the_newest_first(harness: ShipperHarness) -> None:
    harness.sink.fails = lambda _: REFUSED
    for number in range(50):
        harness.poll(f"t{number}")
        harness.shipper.step()
    harness.sink.fails = lambda _: None
    harness.ship()

    newest = harness.poll("live")
    harness.ship()
    assert len(harness.topics()) == 51
    backlog = [poll for poll in harness.sink.order if poll < 49]
    assert backlog == list(range(1, 49)), "the backlog goes in order"
    assert harness.sink.order == [49, 50, *backlog, newest], "what is there when it is back goes before the backlog"


def test_live_polls_overtake_the_backlog(harness: ShipperHarness) -> None:
    harness.sink.fails = lambda _: REFUSED
    backlog = [harness.poll(f"t{number}") for number in range(60)]
    harness.shipper.step()
    harness.sink.fails = lambda _: None
    harness.shipper.step()  # goes to the head, and ships a first part of the backlog
    live = harness.poll("live")
    harness.ship()

    assert harness.sink.order.index(live) < harness.sink.order.index(backlog[-1])
    assert sorted(set(harness.sink.order)) == [*backlog, live]


def test_the_backlog_is_rate_limited(harness: ShipperHarness) -> None:
    harness.sink.fails = lambda _: REFUSED
    for _ in range(40):
        harness.poll(*(f"t{n}" for n in range(10)))
    harness.shipper.step()
    harness.sink.fails = lambda _: None
    assert harness.shipper.step() == pytest.approx(20 * 10 / 100), "20 polls of 10 rows at 100 rows a second"


def test_waits_grow_with_jitter_and_end_with_success(harness: ShipperHarness, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    harness.poll("t")
    harness.sink.fails = lambda _: REFUSED
    waits = [harness.shipper.step() for _ in range(10)]
    assert all(0.5 * 2**n <= wait <= 2**n for n, wait in enumerate(waits[:6]))
    assert all(30 <= wait <= 60 for wait in waits[7:])
    assert harness.shipper.fault is not None
    harness.clock.advance(30)
    harness.sink.fails = lambda _: None
    harness.ship()
    assert harness.shipper.fault is None
    assert [record.getMessage() for record in caplog.records] == [
        'sink failed sink=memory error="connection refused"',
        "sink recovered sink=memory down_for=30s attempts_failed=10",
    ]


def test_the_retry_time_of_a_sink_is_respected(harness: ShipperHarness) -> None:
    harness.poll("t")
    harness.sink.fails = lambda _: SinkError("too many requests", retriable=True, retry_after_seconds=90)
    assert harness.shipper.step() == 90


def bad(*names: str) -> Any:
    """Refuses any batch with one of these topics in it."""

    def fails(batch: Batch) -> SinkError | None:
        found = set(batch.rows["topic"].to_pylist()) & set(names) if batch.table == "topic" else set()
        return SinkError(f"cannot take {sorted(found)}", retriable=False) if found else None

    return fails


def test_bad_rows_are_set_aside_alone_with_the_reason_and_the_rest_arrives(harness: ShipperHarness) -> None:
    harness.sink.fails = bad("t3", "t77")
    harness.poll(*(f"t{number}" for number in range(100)))
    harness.poll("after")
    harness.ship()

    assert len(harness.topics()) == 99
    rows = [
        row
        for poll in harness.journal.tail()
        for batch in poll.batches
        if batch.table == "rejected"
        for row in batch.rows.to_pylist()
    ]
    assert [(row["sink"], row["table"], row["reason"]) for row in rows] == [
        ("memory", "topic", "cannot take ['t3']"),
        ("memory", "topic", "cannot take ['t77']"),
    ]
    assert harness.shipper.rejected_rows == 2


def test_rows_refused_before_the_sink_fails_are_counted_once(harness: ShipperHarness) -> None:
    failures = iter([True] * 3)

    def fails(batch: Batch) -> SinkError | None:
        alone = batch.table == "topic" and batch.rows["topic"].to_pylist() == ["good"]
        return REFUSED if alone and next(failures, False) else bad("bad")(batch)

    harness.sink.fails = fails
    harness.poll("bad", "good")
    harness.ship()
    assert (harness.shipper.rejected_rows, harness.topics()) == (1, ["good"])


def test_rows_rejected_in_every_poll_are_reported_once(
    harness: ShipperHarness, caplog: pytest.LogCaptureFixture
) -> None:
    harness.sink.fails = lambda _: SinkError("another type", retriable=False)
    for _ in range(5):
        harness.poll("a", "b")
        harness.ship()
    assert harness.shipper.rejected_rows == 10
    assert caplog.text.count("rows rejected") == 1


def test_a_batch_that_is_bad_throughout_does_not_cost_a_request_a_row(harness: ShipperHarness) -> None:
    names = [f"t{number}" for number in range(5000)]
    sizes = []

    def fails(batch: Batch) -> SinkError | None:
        sizes.append(len(batch))
        return bad(*names)(batch)  # type: ignore[no-any-return]

    harness.sink.fails = fails
    harness.poll(*names)
    harness.ship()
    assert harness.shipper.rejected_rows == 5000
    assert len(sizes) < 500


def test_a_hundred_bad_rows_of_thousands_cost_no_good_one(harness: ShipperHarness) -> None:
    names = [f"t{number}" for number in range(20_000)]
    harness.sink.fails = bad(*names[::200])
    harness.poll(*names)
    harness.ship()
    assert (harness.shipper.rejected_rows, len(harness.topics())) == (100, 19_900)


def test_a_restart_ships_what_was_not_settled_again_and_nothing_is_there_twice(harness: ShipperHarness) -> None:
    hour = {1: 0, 2: 0, 3: 2, 4: 2, 5: 2, 6: 5}  # a sink that settles an hour at a time
    harness.sink.in_order = True
    harness.sink.settles = lambda poll: hour[poll]
    for number in range(4):
        harness.poll(f"t{number}")
    harness.ship()
    assert harness.journal.cursor("memory").live == 2

    restarted = Shipper(harness.journal, harness.sink, harness.clock, harness.rate)
    harness.shipper = restarted
    harness.poll("t4")
    harness.poll("t5")
    harness.ship()
    assert harness.sink.order == [1, 2, 3, 4, 3, 4, 5, 6]
    assert harness.topics() == [f"t{number}" for number in range(6)]


def test_a_sink_that_wants_order_gets_it_however_far_it_is_behind(harness: ShipperHarness) -> None:
    harness.sink.in_order = True
    harness.sink.fails = lambda _: REFUSED
    polls = [harness.poll(f"t{number}", after=100) for number in range(50)]
    harness.shipper.step()
    harness.sink.fails = lambda _: None
    harness.ship()
    assert harness.sink.order == polls

"""Polls on their way from the journal to a sink, through outages, bad rows and restarts."""

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


class Bench:
    """A journal, a sink and a shipper on a clock that stands still."""

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
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    bench.journal.close()


def test_every_poll_arrives_and_the_cursor_follows(bench: Bench) -> None:
    for number in range(5):
        bench.poll(f"t{number}")
        bench.ship()
    assert bench.topics() == ["t0", "t1", "t2", "t3", "t4"]
    assert bench.journal.cursor("memory").live == 5


def test_a_sink_that_is_down_loses_nothing_and_gets_the_newest_first(bench: Bench) -> None:
    bench.sink.fails = lambda _: REFUSED
    for number in range(50):
        bench.poll(f"t{number}")
        bench.shipper.step()
    bench.sink.fails = lambda _: None
    bench.ship()

    newest = bench.poll("live")
    bench.ship()
    assert len(bench.topics()) == 51
    backlog = [poll for poll in bench.sink.order if poll < 49]
    assert backlog == list(range(1, 49)), "the backlog goes in order"
    assert bench.sink.order == [49, 50, *backlog, newest], "what is there when it is back goes before the backlog"


def test_live_polls_overtake_the_backlog(bench: Bench) -> None:
    bench.sink.fails = lambda _: REFUSED
    backlog = [bench.poll(f"t{number}") for number in range(60)]
    bench.shipper.step()
    bench.sink.fails = lambda _: None
    bench.shipper.step()  # goes to the head, and ships a first part of the backlog
    live = bench.poll("live")
    bench.ship()

    assert bench.sink.order.index(live) < bench.sink.order.index(backlog[-1])
    assert sorted(set(bench.sink.order)) == [*backlog, live]


def test_the_backlog_is_rate_limited(bench: Bench) -> None:
    bench.sink.fails = lambda _: REFUSED
    for _ in range(40):
        bench.poll(*(f"t{n}" for n in range(10)))
    bench.shipper.step()
    bench.sink.fails = lambda _: None
    assert bench.shipper.step() == pytest.approx(20 * 10 / 100), "20 polls of 10 rows at 100 rows a second"


def test_waits_grow_with_jitter_and_end_with_success(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    bench.poll("t")
    bench.sink.fails = lambda _: REFUSED
    waits = [bench.shipper.step() for _ in range(10)]
    assert all(0.5 * 2**n <= wait <= 2**n for n, wait in enumerate(waits[:6]))
    assert all(30 <= wait <= 60 for wait in waits[7:])
    assert bench.shipper.fault is not None
    bench.clock.advance(30)
    bench.sink.fails = lambda _: None
    bench.ship()
    assert bench.shipper.fault is None
    assert [record.getMessage() for record in caplog.records] == [
        'sink failed sink=memory error="connection refused"',
        "sink recovered sink=memory down_for=30s attempts_failed=10",
    ]


def test_a_sink_that_says_how_long_to_wait_is_believed(bench: Bench) -> None:
    bench.poll("t")
    bench.sink.fails = lambda _: SinkError("too many requests", retriable=True, retry_after_seconds=90)
    assert bench.shipper.step() == 90


def bad(*names: str) -> Any:
    """Refuses any batch with one of these topics in it."""

    def fails(batch: Batch) -> SinkError | None:
        found = set(batch.rows["topic"].to_pylist()) & set(names) if batch.table == "topic" else set()
        return SinkError(f"cannot take {sorted(found)}", retriable=False) if found else None

    return fails


def test_bad_rows_are_set_aside_alone_with_the_reason_and_the_rest_arrives(bench: Bench) -> None:
    bench.sink.fails = bad("t3", "t77")
    bench.poll(*(f"t{number}" for number in range(100)))
    bench.poll("after")
    bench.ship()

    assert len(bench.topics()) == 99
    rows = [
        row
        for poll in bench.journal.tail()
        for batch in poll.batches
        if batch.table == "rejected"
        for row in batch.rows.to_pylist()
    ]
    assert [(row["sink"], row["table"], row["reason"]) for row in rows] == [
        ("memory", "topic", "cannot take ['t3']"),
        ("memory", "topic", "cannot take ['t77']"),
    ]
    assert bench.shipper.rejected_rows == 2


def test_rows_refused_before_the_sink_fails_are_counted_once(bench: Bench) -> None:
    failures = iter([True] * 3)

    def fails(batch: Batch) -> SinkError | None:
        alone = batch.table == "topic" and batch.rows["topic"].to_pylist() == ["good"]
        return REFUSED if alone and next(failures, False) else bad("bad")(batch)

    bench.sink.fails = fails
    bench.poll("bad", "good")
    bench.ship()
    assert (bench.shipper.rejected_rows, bench.topics()) == (1, ["good"])


def test_rows_that_are_refused_in_every_poll_are_told_once(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    bench.sink.fails = lambda _: SinkError("another type", retriable=False)
    for _ in range(5):
        bench.poll("a", "b")
        bench.ship()
    assert bench.shipper.rejected_rows == 10
    assert caplog.text.count("rows rejected") == 1


def test_a_batch_that_is_bad_throughout_does_not_cost_a_request_a_row(bench: Bench) -> None:
    names = [f"t{number}" for number in range(5000)]
    asked = []

    def fails(batch: Batch) -> SinkError | None:
        asked.append(len(batch))
        return bad(*names)(batch)  # type: ignore[no-any-return]

    bench.sink.fails = fails
    bench.poll(*names)
    bench.ship()
    assert bench.shipper.rejected_rows == 5000
    assert len(asked) < 500


def test_a_hundred_bad_rows_of_thousands_cost_no_good_one(bench: Bench) -> None:
    names = [f"t{number}" for number in range(20_000)]
    bench.sink.fails = bad(*names[::200])
    bench.poll(*names)
    bench.ship()
    assert (bench.shipper.rejected_rows, len(bench.topics())) == (100, 19_900)


def test_a_restart_ships_what_was_not_settled_again_and_nothing_is_there_twice(bench: Bench) -> None:
    hour = {1: 0, 2: 0, 3: 2, 4: 2, 5: 2, 6: 5}  # a sink that settles an hour at a time
    bench.sink.in_order = True
    bench.sink.settles = lambda poll: hour[poll]
    for number in range(4):
        bench.poll(f"t{number}")
    bench.ship()
    assert bench.journal.cursor("memory").live == 2

    restarted = Shipper(bench.journal, bench.sink, bench.clock, bench.rate)
    bench.shipper = restarted
    bench.poll("t4")
    bench.poll("t5")
    bench.ship()
    assert bench.sink.order == [1, 2, 3, 4, 3, 4, 5, 6]
    assert bench.topics() == [f"t{number}" for number in range(6)]


def test_a_sink_that_wants_order_gets_it_however_far_it_is_behind(bench: Bench) -> None:
    bench.sink.in_order = True
    bench.sink.fails = lambda _: REFUSED
    polls = [bench.poll(f"t{number}", after=100) for number in range(50)]
    bench.shipper.step()
    bench.sink.fails = lambda _: None
    bench.ship()
    assert bench.sink.order == polls

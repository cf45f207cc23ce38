"""A shipper that was stopped changes nothing any more, even if its write ends later; its successor waits for that write."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from queue import SimpleQueue

import pytest

from lagwatch.batch import Batch, make_batch
from lagwatch.catalogue import TOPIC
from lagwatch.clock import SettableClock
from lagwatch.errors import SinkError
from lagwatch.journal import Journal
from lagwatch.protocols import Sink
from lagwatch.shipping import Shipping, ShippingRate
from tests.harness.polls import rows_of
from tests.harness.sinks import MemorySink

RATE = ShippingRate(idle_seconds=0.01)
REFUSED = SinkError("connection refused", retriable=True)
REJECTED = SinkError("another type", retriable=False)


class HangingSink(MemorySink):
    """Each write hangs until `go_on` is set, then fails with `error`, if there is one."""

    def __init__(self, error: SinkError | None = None) -> None:
        super().__init__()
        self.writing, self.go_on = threading.Event(), threading.Event()
        self.attempts: list[int] = []
        self.fails = lambda _: error

    def write(self, poll: int, batches: Sequence[Batch]) -> None:
        self.attempts.append(poll)
        self.writing.set()
        assert self.go_on.wait(30)
        super().write(poll, batches)


class QueueSink(MemorySink):
    """`next_write` waits for a write."""

    def __init__(self, name: str = "memory") -> None:
        super().__init__(name)
        self._writes: SimpleQueue[tuple[int, Sequence[Batch]]] = SimpleQueue()

    def write(self, poll: int, batches: Sequence[Batch]) -> None:
        super().write(poll, batches)
        self._writes.put((poll, batches))

    def next_write(self) -> tuple[int, Sequence[Batch]]:
        return self._writes.get(timeout=30)


class WatchedJournal(Journal):
    """Calls `before_move` and `after_move` when a live cursor moves, on the thread of the shipper."""

    def __init__(self, path: Path, clock: SettableClock) -> None:
        super().__init__(path, clock=clock)
        self.before_move: Callable[[], None] = lambda: None
        self.after_move: Callable[[], None] = lambda: None

    def advance_live(self, sink: str, poll: int) -> None:
        self.before_move()
        super().advance_live(sink, poll)
        self.after_move()


class ShippingHarness:
    """The sinks of an agent, over a journal with cursors for them."""

    def __init__(self, folder: Path) -> None:
        self.clock = SettableClock()
        self.journal = WatchedJournal(folder / "journal.db", self.clock)
        self.shipping = Shipping(self.journal, self.clock)
        self.hanging: list[HangingSink] = []

    def poll(self) -> None:
        self.journal.append([make_batch(TOPIC, "east", self.clock.wall_ms(), {"topic": ["a", "b"]})])

    def start(self, *sinks: Sink) -> None:
        self.shipping.start([(sink, RATE) for sink in sinks])

    def abandon(self, sink: HangingSink, *, late_seconds: float = 0) -> threading.Thread:
        """Ship three polls, which are this late, to a sink that hangs, and stop. Returns the thread that hangs."""
        self.hanging.append(sink)
        self.journal.register_sink(sink.name)
        for _ in range(3):
            self.poll()
        self.clock.advance(late_seconds)
        self.start(sink)
        (thread,) = self.shipping._threads
        assert sink.writing.wait(30)
        self.shipping.stop(seconds=0)
        return thread

    def close(self) -> None:
        for sink in self.hanging:
            sink.go_on.set()
        self.shipping.stop()
        self.journal.close()


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[ShippingHarness]:
    harness = ShippingHarness(tmp_path)
    yield harness
    harness.close()


def finish(sink: HangingSink, thread: threading.Thread) -> None:
    """Let the hanging write end, and with it its thread."""
    sink.go_on.set()
    thread.join(30)
    assert not thread.is_alive()


@pytest.mark.parametrize("late_seconds", [0, 100], ids=["live", "backlog"])
@pytest.mark.parametrize("error", [None, REFUSED, REJECTED], ids=["accepted", "failed", "rejected"])
def test_a_write_that_ends_after_the_stop_changes_nothing(
    error: SinkError | None, late_seconds: float, harness: ShippingHarness, caplog: pytest.LogCaptureFixture
) -> None:
    sink = HangingSink(error)
    thread = harness.abandon(sink, late_seconds=late_seconds)
    before = (harness.journal.cursor("memory"), harness.journal.newest_poll)

    finish(sink, thread)

    assert (harness.journal.cursor("memory"), harness.journal.newest_poll) == before
    assert sink.attempts == [1], "it writes no further poll, and does not look for the rows at fault"
    assert sink.closed
    assert caplog.text == ""


def test_every_poll_not_settled_before_a_reload_reaches_the_new_sink(harness: ShippingHarness) -> None:
    old, new = HangingSink(), QueueSink()
    thread = harness.abandon(old)
    finish(old, thread)
    harness.start(new)
    assert [new.next_write()[0] for _ in range(3)] == [1, 2, 3]


def test_a_write_of_a_removed_sink_may_end_after_its_cursor_is_deleted(
    harness: ShippingHarness, caplog: pytest.LogCaptureFixture
) -> None:
    old = HangingSink()
    thread = harness.abandon(old)
    harness.start()
    finish(old, thread)
    assert not harness.journal.stats().cursors
    assert caplog.text == ""


def test_a_write_that_hangs_may_end_after_the_journal_is_closed(
    harness: ShippingHarness, caplog: pytest.LogCaptureFixture
) -> None:
    sink = HangingSink()
    thread = harness.abandon(sink)
    harness.journal.close()
    finish(sink, thread)
    assert caplog.text == ""


def test_a_stop_waits_for_a_cursor_that_is_being_moved(harness: ShippingHarness) -> None:
    order, stopping, stopped = list[str](), threading.Event(), threading.Event()

    def stop() -> None:
        stopping.set()
        harness.shipping.stop(seconds=0)
        order.append("stopped")
        stopped.set()

    def stop_meanwhile() -> None:
        threading.Thread(target=stop).start()
        assert stopping.wait(30)

    harness.journal.before_move = stop_meanwhile
    harness.journal.after_move = lambda: order.append("moved")
    harness.start(MemorySink())
    harness.poll()
    assert stopped.wait(30)
    assert order == ["moved", "stopped"]


def test_a_new_sink_waits_for_the_write_of_the_old_one_and_others_do_not(harness: ShippingHarness) -> None:
    old, new, other = HangingSink(), QueueSink(), QueueSink("other")
    thread = harness.abandon(old)

    harness.start(new, other)
    _, waiting = other.next_write()
    assert [(row["source"], row["up"]) for row in rows_of(waiting, "source")] == [("memory", False), ("other", True)]
    assert "has not ended" in rows_of(waiting, "source")[0]["error"]
    assert new.order == []
    assert harness.shipping.faults() == [rows_of(waiting, "source")[0]["error"]]

    finish(old, thread)
    _, recovered = other.next_write()
    assert [(row["source"], row["up"]) for row in rows_of(recovered, "source")] == [("memory", True), ("other", True)]
    assert new.order[:3] == [1, 2, 3]


def test_a_sink_that_waits_stops_at_once_and_the_next_one_waits_in_its_place(harness: ShippingHarness) -> None:
    first, second, third = HangingSink(), QueueSink(), QueueSink()
    thread = harness.abandon(first)
    harness.start(second)
    (waiting,) = harness.shipping._threads
    harness.shipping.stop()
    assert not waiting.is_alive()
    assert second.closed
    harness.start(third)
    (waiting,) = harness.shipping._threads
    assert waiting.is_alive()
    assert (second.order, third.order) == ([], [])
    finish(first, thread)
    assert third.next_write()[0] == 1
    assert second.order == []

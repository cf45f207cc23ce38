"""Ships polls from the journal to the sinks, each on its own thread with its own cursor, retries and rate limit.

After an outage the newest polls go first; the backlog follows in order and at a limited rate. A cursor passes only polls
that the sink has accepted; the journal keeps the rest.
"""

from __future__ import annotations

import contextlib
import json
import logging
import random
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from lagwatch.batch import Batch, Column, make_batch
from lagwatch.catalogue import REJECTED, SOURCE
from lagwatch.clock import Clock, Moment
from lagwatch.errors import SinkError
from lagwatch.journal import Cursor, Journal, Poll
from lagwatch.protocols import Sink
from lagwatch.source_names import SHIPPING
from lagwatch.text import duration_text

log = logging.getLogger(__name__)

_STOP_SECONDS = 3.0
_NOT_ENDED = "a write from before a reload has not ended; if it never does, restart the agent"

Write = Callable[[int, Sequence[Batch]], None]
"""`Sink.write`: writes the batches of a poll. Raises SinkError."""


@dataclass(frozen=True, slots=True)
class ShippingRate:
    """Rate limit, back-off and step sizes of a shipper."""

    backlog_rows_a_second: float = 50_000
    behind_seconds: float = 60  # older polls are backlog
    first_wait_seconds: float = 1
    longest_wait_seconds: float = 60
    idle_seconds: float = 1
    polls_a_step: int = 20
    attempts_a_batch: int = 200  # to find the rows of one batch that the sink rejects; the rest is then rejected whole


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a sink accepts no writes, and since when."""

    reason: str
    since: Moment


@dataclass(frozen=True, slots=True)
class RejectedRows:
    """Rows that a sink will never accept, with its reason."""

    batch: Batch
    reason: str


class BackOff:
    """How long to wait after each failure in a row: exponential with jitter, or longer if the sink says so."""

    def __init__(self, rate: ShippingRate) -> None:
        self.failures = 0
        self._rate = rate

    def next_wait(self, error: SinkError) -> float:
        """Count a failure; returns the seconds to wait."""
        longest = self._rate.longest_wait_seconds
        wait = min(longest, self._rate.first_wait_seconds * 2.0 ** min(self.failures, 16))
        self.failures += 1
        jittered = wait * random.uniform(0.5, 1.0)  # noqa: S311  # so that many agents do not retry at the same time
        return max(jittered, min(error.retry_after_seconds or 0.0, 10 * longest))

    def reset(self) -> None:
        """Start over after a success."""
        self.failures = 0


def write_poll(write: Write, poll: int, batches: Sequence[Batch], attempts_a_batch: int) -> list[RejectedRows]:
    """Write a poll; if the sink rejects it, write all rows it accepts and return the others. Raises retriable SinkErrors."""
    try:
        write(poll, batches)
    except SinkError as error:
        if error.retriable:
            raise
        rejected: list[RejectedRows] = []
        for batch in batches:
            _bisect(write, poll, batch, [attempts_a_batch], rejected)
        return rejected
    return []


def _bisect(write: Write, poll: int, batch: Batch, attempts: list[int], rejected: list[RejectedRows]) -> None:
    """Halve the batch until every rejected row is alone, or the attempts are used up."""
    attempts[0] -= 1
    try:
        write(poll, [batch])
    except SinkError as error:
        if error.retriable:
            raise
        if len(batch) == 1 or attempts[0] <= 0:
            rejected.append(RejectedRows(batch, str(error)))
            return
        middle = len(batch) // 2
        for rows in (batch.rows.slice(0, middle), batch.rows.slice(middle)):
            _bisect(write, poll, replace(batch, rows=rows), attempts, rejected)
    else:
        attempts[0] += 1 + len(batch) // 16  # rows that are accepted earn more attempts


class Shipper:
    """Ships the journal to one sink. `step` ships some polls; `run` repeats it until `stop`.

    A write may hang, so `stop` does not wait for it; when it ends, the stopped shipper writes nothing more to the sink and
    changes nothing in the journal.
    """

    def __init__(
        self,
        journal: Journal,
        sink: Sink,
        clock: Clock,
        rate: ShippingRate | None = None,
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        self.sink = sink
        self.fault: Fault | None = None
        self.rejected_rows = 0
        self._journal = journal
        self._clock = clock
        self._rate = rate or ShippingRate()
        self._on_change = on_change
        self._back_off = BackOff(self._rate)
        self._logged: dict[str, str] = {}  # by table, the last reason for a rejection
        self._written = journal.register_sink(sink.name).live  # ahead of the cursor if the sink settles polls later
        self._lock = threading.Lock()
        self._stopped = threading.Event()

    def run(self, previous: Sequence[threading.Thread] = ()) -> None:
        """Ship until stopped, once the `previous` threads of this sink have ended; never raises."""
        while any(thread.is_alive() for thread in previous) and not self._stopped.is_set():
            self._report(_NOT_ENDED)
            self._stopped.wait(self._rate.idle_seconds)
        wait = 0.0
        while not self._stopped.wait(wait):
            try:
                wait = self.step()
            except Exception as error:
                log.exception("shipping failed sink=%s", self.sink.name)
                reason = f"internal error, please report it: {type(error).__name__}: {error}"
                wait = self._failed(SinkError(reason, retriable=True))
        self.sink.close()

    def stop(self) -> None:
        """Stop shipping, without waiting for a write. The poll of that write is delivered again."""
        with self._lock:
            self._stopped.set()

    @contextlib.contextmanager
    def _changing(self) -> Iterator[None]:
        """Delay `stop` until the journal is changed. Raises SinkError if the shipper is stopped."""
        with self._lock:
            self._check_not_stopped()
            yield

    def _check_not_stopped(self) -> None:
        if self._stopped.is_set():
            raise SinkError("the shipper is stopped", retriable=True)

    def ship_some(self) -> bool:
        """One step without waiting. Returns whether there may be more to ship."""
        return self.step() != self._rate.idle_seconds and self.fault is None

    def step(self) -> float:
        """Ship some live polls, or if there are none some of the backlog. Returns the seconds until the next step."""
        try:
            cursor = self._cursor()
            shipped = self._ship_live(cursor)
            wait = 0.0 if shipped else self._ship_backlog(cursor)
            self._succeeded()
        except SinkError as error:
            return self._failed(error)
        return wait

    def _ship_live(self, cursor: Cursor) -> bool:
        position = max(cursor.live, self._written) if self.sink.in_order else cursor.live
        polls = self._journal.read(position, limit_polls=self._rate.polls_a_step)
        for poll in polls:
            rejected = self._write(poll)
            self._written = poll.poll
            self._advance(self._journal.advance_live, self.sink.settled(poll.poll), rejected)
        return bool(polls)

    def _cursor(self) -> Cursor:
        """The cursor, after turning live polls that are too old into backlog."""
        with self._changing():
            cursor = self._journal.cursor(self.sink.name)
            if self.sink.in_order:
                return cursor
            oldest = self._journal.read(cursor.live, limit_polls=1, tables=())
            if oldest and self._clock.wall_ms() - oldest[0].at_ms > self._rate.behind_seconds * 1000:
                self._journal.jump_live(self.sink.name, self._journal.newest_poll)
                cursor = self._journal.cursor(self.sink.name)
            return cursor

    def _ship_backlog(self, cursor: Cursor) -> float:
        if not cursor.backfill:
            return self._rate.idle_seconds
        first, last = cursor.backfill[0]
        polls = self._journal.read(first - 1, through_poll=last, limit_polls=self._rate.polls_a_step)
        rows = 0
        for poll in polls:
            rejected = self._write(poll)
            rows += sum(len(batch) for batch in poll.batches)
            self._advance(self._journal.advance_backfill, poll.poll, rejected)
        if not polls:
            if self._journal.fault is not None:
                return self._rate.idle_seconds  # the polls may still be in memory, waiting for the disk
            self._advance(self._journal.advance_backfill, last)
        return rows / self._rate.backlog_rows_a_second

    def _write(self, poll: Poll) -> list[RejectedRows]:
        batches = [batch for batch in poll.batches if batch.table != REJECTED.name]  # the sink rejected those already
        return write_poll(self._write_unless_stopped, poll.poll, batches, self._rate.attempts_a_batch)

    def _write_unless_stopped(self, poll: int, batches: Sequence[Batch]) -> None:
        self._check_not_stopped()
        self.sink.write(poll, batches)

    def _advance(self, move: Callable[[str, int], None], poll: int, rejected: Sequence[RejectedRows] = ()) -> None:
        """Move the cursor and journal the rejected rows: both, or neither once the shipper is stopped.

        Only after the whole poll: a sink that fails half-way gets the poll again.
        """
        with self._changing():
            for rows in rejected:
                self._journal_rejected(rows.batch, rows.reason)
            move(self.sink.name, poll)

    def _journal_rejected(self, batch: Batch, reason: str) -> None:
        self.rejected_rows += len(batch)
        if self._logged.get(batch.table) != reason:  # a field conflict rejects rows of every later poll: log it once
            self._logged[batch.table] = reason
            log.warning(
                'rows rejected sink=%s table=%s reason="%s"; see lagwatch journal rejected',
                self.sink.name,
                batch.table,
                reason,
            )
        rows = batch.rows.to_pylist()
        texts = [json.dumps({key: v for key, v in row.items() if v is not None}, ensure_ascii=False) for row in rows]
        columns: dict[str, Column] = {
            "sink": [self.sink.name] * len(rows),
            "table": [batch.table] * len(rows),
            "row": texts,
            "at_ms": [batch.at_ms] * len(rows),
            "reason": [reason] * len(rows),
        }
        self._journal.append([make_batch(REJECTED, batch.cluster, self._clock.wall_ms(), columns, source=SHIPPING)])

    def _failed(self, error: SinkError) -> float:
        self._report(str(error))
        return self._back_off.next_wait(error)

    def _report(self, reason: str) -> None:
        """Log and journal why the sink accepts no writes, unless that is known or the shipper is stopped."""
        with contextlib.suppress(SinkError), self._changing():
            if self.fault is None or self.fault.reason != reason:
                log.warning('sink failed sink=%s error="%s"', self.sink.name, reason)
                self.fault = Fault(reason, self.fault.since if self.fault else Moment.now(self._clock))
                self._on_change()

    def _succeeded(self) -> None:
        if self.fault is not None:
            with self._changing():
                down_for = duration_text(self._clock.monotonic() - self.fault.since.monotonic)
                failures = self._back_off.failures
                log.info("sink recovered sink=%s down_for=%s attempts_failed=%d", self.sink.name, down_for, failures)
                self.fault = None
                self._on_change()
        self._back_off.reset()


class Shipping:
    """All sinks of an agent. Each has its own thread, so that none waits for another."""

    def __init__(self, journal: Journal, clock: Clock) -> None:
        self._journal = journal
        self._clock = clock
        self._shippers: list[Shipper] = []
        self._threads: list[threading.Thread] = []
        self._abandoned: list[threading.Thread] = []  # of stopped shippers whose write has not ended

    def prepare(self, sinks: Sequence[tuple[Sink, ShippingRate]]) -> None:
        """Create a cursor for each sink and delete those of removed sinks, for which the journal would otherwise keep every
        poll.

        A removed sink gets a final source row with `up` and `retired`; without it, it could be shown as down for ever.
        """
        gone = sorted(self._journal.stats().cursors.keys() - {sink.name for sink, _ in sinks})
        for name in gone:
            self._journal.unregister_sink(name)
        self._journal.append(self._source_rows([(name, None) for name in gone], retired=True))
        self._shippers = [Shipper(self._journal, sink, self._clock, rate, self._journal_status) for sink, rate in sinks]

    def start(self, sinks: Sequence[tuple[Sink, ShippingRate]]) -> None:
        """Start shipping. A sink whose previous write has not ended waits for it; the others start at once."""
        self.prepare(sinks)
        self._threads = [self._thread_of(shipper) for shipper in self._shippers]
        for thread in self._threads:
            thread.start()

    def _thread_of(self, shipper: Shipper) -> threading.Thread:
        name = f"ship-{shipper.sink.name}"
        previous = [thread for thread in self._abandoned if thread.name == name]
        return threading.Thread(target=shipper.run, args=(previous,), name=name, daemon=True)

    def drain(self, seconds: float) -> None:
        """Ship everything without threads, for at most `seconds`; a sink that fails is not retried."""
        until = self._clock.monotonic() + seconds
        for shipper in self._shippers:
            while self._clock.monotonic() < until and shipper.ship_some():
                pass
            shipper.sink.close()

    def stop(self, seconds: float = _STOP_SECONDS) -> None:
        """Stop shipping; its threads get some seconds to end.

        A write that hangs longer is abandoned: its poll is delivered again, and nothing is journalled when it ends.
        """
        for shipper in self._shippers:
            shipper.stop()
        until = self._clock.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, until - self._clock.monotonic()))
        self._abandoned = [thread for thread in (*self._abandoned, *self._threads) if thread.is_alive()]
        self._shippers, self._threads = [], []

    def rows(self) -> list[Batch]:
        """The sinks as rows of `source`: up or down, since when, and why."""
        return self._source_rows([(shipper.sink.name, shipper.fault) for shipper in self._shippers])

    def _source_rows(self, sinks: Sequence[tuple[str, Fault | None]], *, retired: bool | None = None) -> list[Batch]:
        if not sinks:
            return []
        columns: dict[str, Column] = {
            "source": [name for name, _ in sinks],
            "target": [""] * len(sinks),
            "up": [fault is None for _, fault in sinks],
            "since_ms": [fault.since.wall_ms if fault else None for _, fault in sinks],
            "error": [fault.reason if fault else None for _, fault in sinks],
            "retired": [retired] * len(sinks),
        }
        return [make_batch(SOURCE, "", self._clock.wall_ms(), columns, source=SHIPPING)]

    def faults(self) -> list[str]:
        """Why sinks accept no writes now."""
        return [shipper.fault.reason for shipper in self._shippers if shipper.fault is not None]

    def rejected_rows(self) -> dict[str, int]:
        """The number of rows each sink has rejected."""
        return {shipper.sink.name: shipper.rejected_rows for shipper in self._shippers}

    def _journal_status(self) -> None:
        self._journal.append(self.rows())

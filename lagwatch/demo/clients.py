"""Kafka's clients as behaviours use them: addresses enter; clients that survive killed brokers and stop quickly leave."""

from __future__ import annotations

import logging
from types import TracebackType
from typing import Any, Self

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaError

log = logging.getLogger(__name__)

_BOTH: dict[str, Any] = {
    "reconnect_backoff_max_ms": 1000,  # 30 s by default: too long after a broker has come back
    "bootstrap_timeout_ms": 5000,
    "request_timeout_ms": 10_000,  # a frozen broker is given up after this long
    "metadata_max_age_ms": 10_000,
    "allow_auto_create_topics": False,
    "metrics_enabled": False,
}
_STOP_MS = 2000
_FETCH_MS = 1000
_COMMIT_MS = 5000
_POLL_MS = 200
_SMALL_BITE, _LARGE_BITE = 4096, 262_144
MOST = 1000  # records of one read


def open_producer(bootstrap: str, **options: Any) -> Any:
    """A KafkaProducer that waits for all replicas in sync."""
    producer = KafkaProducer(
        bootstrap_servers=bootstrap.split(","), acks="all", linger_ms=50, max_block_ms=5000, **_BOTH, **options
    )
    # One that hangs when the process ends is none of the user's business: its own hook would wait and print a traceback.
    producer._unregister_cleanup()  # noqa: SLF001
    return producer


def close_producer(producer: Any) -> None:
    """Close it, waiting only shortly for what was not sent yet."""
    try:
        producer.close(timeout=_STOP_MS / 1000)
    except KafkaError as error:  # it then gives up by itself, two minutes later
        log.info("a producer could not be closed: %r", error)


class DemoConsumer:
    """A consumer that reads and commits only when it is told to; a context manager.

    As a `member` it joins its group. Otherwise it takes all partitions itself, as Flink and Spark do: the group has
    commits but no members. With `small_bites` a reader slower than the traffic comes round to each of its partitions
    within seconds: the client hands out one fetched answer after the other, each a partition's.
    """

    def __init__(
        self,
        bootstrap: str,
        group: str,
        topic: str,
        *,
        member: bool = True,
        read_committed: bool = False,
        small_bites: bool = False,
    ) -> None:
        self._group = group
        self._consumer = KafkaConsumer(
            bootstrap_servers=bootstrap.split(","),
            group_id=group,
            client_id=f"demo-{group}",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed" if read_committed else "read_uncommitted",
            session_timeout_ms=15_000,
            # One answer a second from each broker. By default there is one for nearly every record, and each costs time.
            fetch_max_wait_ms=_FETCH_MS,
            fetch_min_bytes=65_536,
            max_partition_fetch_bytes=_SMALL_BITE if small_bites else _LARGE_BITE,
            **_BOTH,
        )
        try:
            self._take(topic, member=member)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def read(self, most: int = MOST) -> dict[TopicPartition, list[Any]]:
        """What there is, up to `most` records; waits a moment for the first."""
        self._consumer.resume(*self._consumer.assignment())
        found: dict[TopicPartition, list[Any]] = self._consumer.poll(timeout_ms=_POLL_MS, max_records=most)
        return found

    def stand_still(self) -> None:
        """Read nothing, but stay a live member of the group."""
        self._consumer.pause(*self._consumer.assignment())
        self._consumer.poll(timeout_ms=0, max_records=1)  # may bring partitions that are not paused yet

    def commit(self) -> bool:
        """Commit what was read. False when that was refused, such as while the group has no coordinator."""
        try:
            self._consumer.commit(timeout_ms=_COMMIT_MS)
        except KafkaError as error:
            log.info("group %s could not commit: %r", self._group, error)
            return False
        return True

    def rewind(self) -> int:
        """Go back to the first record of each partition. Returns how many there are from there to the end."""
        places = list(self._consumer.assignment())
        starts = self._consumer.beginning_offsets(places, timeout_ms=_COMMIT_MS)
        ends = self._consumer.end_offsets(places, timeout_ms=_COMMIT_MS)
        for place in places:
            self._consumer.seek(place, starts[place])
        return sum(ends[place] - starts[place] for place in places)

    def membership(self) -> Any:
        """Who this consumer is in its group, as a transaction must tell."""
        return self._consumer.group_metadata()

    def close(self) -> None:
        """Leave the group."""
        self._consumer.close(autocommit=False, timeout_ms=_STOP_MS)

    def _take(self, topic: str, *, member: bool) -> None:
        if member:
            self._consumer.subscribe([topic])
            return
        numbers = self._consumer.partitions_for_topic(topic)
        if not numbers:
            raise KafkaError(f"topic {topic} is not there yet")
        self._consumer.assign([TopicPartition(topic, number) for number in sorted(numbers)])

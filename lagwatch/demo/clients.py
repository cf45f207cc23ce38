"""Kafka clients for the behaviours, configured to survive killed brokers and to stop quickly."""

from __future__ import annotations

import logging
from types import TracebackType
from typing import Any, Self

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaError

log = logging.getLogger(__name__)

_COMMON: dict[str, Any] = {
    "reconnect_backoff_max_ms": 1000,  # the default of 30 s is too long after a broker restart
    "bootstrap_timeout_ms": 5000,
    "request_timeout_ms": 10_000,  # bounds the wait for a frozen broker
    "metadata_max_age_ms": 10_000,
    "allow_auto_create_topics": False,
    "metrics_enabled": False,
}
_STOP_MS = 2000
_FETCH_MS = 1000
_COMMIT_MS = 5000
_POLL_MS = 200
_JOIN_MS = 5000
_SMALL_FETCH, _LARGE_FETCH = 4096, 262_144
MAX_RECORDS = 1000  # per read


def open_producer(bootstrap: str, **options: Any) -> Any:
    """A KafkaProducer with acks=all."""
    producer = KafkaProducer(
        bootstrap_servers=bootstrap.split(","), acks="all", linger_ms=50, max_block_ms=5000, **_COMMON, **options
    )
    # Its atexit hook would wait for a hung producer and print a traceback.
    producer._unregister_cleanup()  # noqa: SLF001
    return producer


def close_producer(producer: Any) -> None:
    """Close it, with a short wait for unsent records."""
    try:
        producer.close(timeout=_STOP_MS / 1000)
    except KafkaError as error:  # its thread ends two minutes later
        log.info("producer not closed: error=%r", error)


class DemoConsumer:
    """A consumer that reads and commits only on request; a context manager.

    As a `member` it joins its group. Otherwise it assigns itself all partitions, like Flink and Spark: the group has
    commits but no members. With `small_fetches` a reader slower than the producers still visits each of its partitions
    within seconds: the client returns fetched data one partition after the other.
    """

    def __init__(
        self,
        bootstrap: str,
        group: str,
        topic: str,
        *,
        member: bool = True,
        read_committed: bool = False,
        small_fetches: bool = False,
    ) -> None:
        self._group = group
        self._topic = topic
        self._member = member
        self._consumer = KafkaConsumer(
            bootstrap_servers=bootstrap.split(","),
            group_id=group,
            client_id=f"demo-{group}",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed" if read_committed else "read_uncommitted",
            session_timeout_ms=15_000,
            # One fetch response per second and broker. By default there is one for nearly every record, which costs CPU.
            fetch_max_wait_ms=_FETCH_MS,
            fetch_min_bytes=65_536,
            max_partition_fetch_bytes=_SMALL_FETCH if small_fetches else _LARGE_FETCH,
            **_COMMON,
        )
        try:
            self._assign()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def read(self, limit: int = MAX_RECORDS) -> dict[TopicPartition, list[Any]]:
        """Up to `limit` available records; waits briefly for the first."""
        assigned = self._consumer.assignment()
        self._consumer.resume(*assigned)
        found: dict[TopicPartition, list[Any]] = self._consumer.poll(
            timeout_ms=_POLL_MS if assigned else _JOIN_MS, max_records=limit
        )
        if not self._consumer.assignment():
            self._join_again()
        return found

    def idle(self) -> None:
        """Read nothing but stay a live member of the group."""
        self._consumer.pause(*self._consumer.assignment())
        self._consumer.poll(timeout_ms=0, max_records=1)  # a rebalance may assign partitions that are not paused yet

    def commit(self) -> bool:
        """Commit the current positions. False when that fails, such as while the group has no coordinator."""
        try:
            self._consumer.commit(timeout_ms=_COMMIT_MS)
        except KafkaError as error:
            log.info("commit failed: group=%s error=%r", self._group, error)
            return False
        return True

    def rewind(self) -> int:
        """Seek to the first record of each partition. Returns the number of records from there to the end."""
        partitions = list(self._consumer.assignment())
        starts = self._consumer.beginning_offsets(partitions, timeout_ms=_COMMIT_MS)
        ends = self._consumer.end_offsets(partitions, timeout_ms=_COMMIT_MS)
        for partition in partitions:
            self._consumer.seek(partition, starts[partition])
        return sum(ends[partition] - starts[partition] for partition in partitions)

    def membership(self) -> Any:
        """The group metadata that a transaction needs to commit offsets."""
        return self._consumer.group_metadata()

    def close(self) -> None:
        """Leave the group."""
        self._consumer.close(autocommit=False, timeout_ms=_STOP_MS)

    def _assign(self) -> None:
        if self._member:
            self._consumer.subscribe([self._topic])
            return
        numbers = self._consumer.partitions_for_topic(self._topic)
        if not numbers:
            raise KafkaError(f"topic {self._topic} does not exist yet")
        self._consumer.assign([TopicPartition(self._topic, number) for number in sorted(numbers)])

    def _join_again(self) -> None:
        """kafka-python drops an assignment that arrives between two polls, and then waits for it for ever."""
        self._consumer.unsubscribe()
        self._consumer.subscribe([self._topic])

"""Produces records with chosen timestamps, and reads them back as the truth."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import numpy as np
import numpy.typing as npt
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

Ints = npt.NDArray[np.int64]


@contextmanager
def ordered_producer(bootstrap: str) -> Iterator[KafkaProducer]:
    """A producer that keeps the order of records."""
    producer = KafkaProducer(
        bootstrap_servers=bootstrap.split(","), acks="all", retries=10, max_in_flight_requests_per_connection=1
    )
    try:
        yield producer
    finally:
        producer.close(timeout=5)


def produce_at(bootstrap: str, topic: str, partition: int, times_ms: Iterable[int]) -> None:
    """Append a record per timestamp and wait for all acknowledgements."""
    with ordered_producer(bootstrap) as producer:
        sent = [producer.send(topic, b"x", partition=partition, timestamp_ms=int(time)) for time in times_ms]
        producer.flush(timeout=120)
        for record in sent:
            record.get(timeout=0)


def times_of(bootstrap: str, topic: str, partition: int = 0) -> Ints:
    """The timestamp of every record by offset, from the log."""
    place = TopicPartition(topic, partition)
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap.split(","), auto_offset_reset="earliest", enable_auto_commit=False
    )
    try:
        consumer.assign([place])
        end = consumer.end_offsets([place])[place]
        times = np.full(end, -1, np.int64)
        while consumer.position(place) < end:
            for record in consumer.poll(timeout_ms=1000).get(place, []):
                times[record.offset] = record.timestamp
    finally:
        consumer.close()
    return times

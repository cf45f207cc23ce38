"""A consumer that transforms records of one topic into another exactly once, in transactions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from kafka.structs import OffsetAndMetadata

from lagwatch.demo.client_thread import RunContext, finish_within
from lagwatch.demo.clients import DemoConsumer, close_producer, open_producer
from lagwatch.demo.rate import check_above_zero

# When the transaction or group coordinator is killed, the client may wait for its response for ever.
_HUNG_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class Transforming:
    """Reads committed records and writes one for each; the same transaction commits the offsets."""

    group: str
    topic: str
    to_topic: str
    transaction_every_seconds: float = 2.0

    def __post_init__(self) -> None:
        check_above_zero(transaction_every_seconds=self.transaction_every_seconds)
        if self.topic == self.to_topic:
            raise ValueError(f"to_topic must not be {self.topic}: each record would produce another one for ever")

    def run(self, bootstrap: str, context: RunContext) -> None:
        """Transform until the end. After an error the producer of the next attempt aborts the open transaction."""
        producer = open_producer(
            bootstrap, transactional_id=f"demo-{self.group}", client_id=f"demo-produces-{self.to_topic}"
        )
        try:
            producer.init_transactions()
            with DemoConsumer(bootstrap, self.group, self.topic, read_committed=True) as reader:
                while context.wait(self.transaction_every_seconds):
                    records = reader.read()
                    if records:
                        transact = partial(self._transact, producer, records, reader.membership())
                        finish_within(_HUNG_SECONDS, context, transact)
        finally:
            close_producer(producer)

    def _transact(self, producer: Any, records: dict[Any, list[Any]], member: Any) -> None:
        producer.begin_transaction()
        for record in (record for of_partition in records.values() for record in of_partition):
            producer.send(self.to_topic, record.value.upper(), key=str(record.offset).encode())
        positions = {partition: OffsetAndMetadata(found[-1].offset + 1, "", -1) for partition, found in records.items()}
        producer.send_offsets_to_transaction(positions, member)
        producer.commit_transaction()

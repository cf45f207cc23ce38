"""Consume, transform, produce, exactly once: records of one topic enter, those of another leave in transactions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from kafka.structs import OffsetAndMetadata

from lagwatch.demo.client_thread import ClientThread, finish_within
from lagwatch.demo.clients import DemoConsumer, close_producer, open_producer
from lagwatch.demo.rate import check_above_zero

# When the coordinator of transactions or of the group is killed, the client may wait for its answer for ever.
_HUNG_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class Transforming:
    """Reads committed records and writes one for each; the offsets are committed by the transaction that wrote them."""

    group: str
    topic: str
    to_topic: str
    transaction_every_seconds: float = 2.0

    def __post_init__(self) -> None:
        check_above_zero(transaction_every_seconds=self.transaction_every_seconds)
        if self.topic == self.to_topic:
            raise ValueError(f"to_topic must not be {self.topic}, or each record would make another one for ever")

    def run(self, bootstrap: str, life: ClientThread) -> None:
        """Transform until the end. An error ends the transaction: the next attempt's producer has it aborted."""
        producer = open_producer(
            bootstrap, transactional_id=f"demo-{self.group}", client_id=f"demo-produces-{self.to_topic}"
        )
        try:
            producer.init_transactions()
            with DemoConsumer(bootstrap, self.group, self.topic, read_committed=True) as reader:
                while life.wait(self.transaction_every_seconds):
                    records = reader.read()
                    if records:
                        transact = partial(self._transact, producer, records, reader.membership())
                        finish_within(_HUNG_SECONDS, life, transact)
        finally:
            close_producer(producer)

    def _transact(self, producer: Any, records: dict[Any, list[Any]], member: Any) -> None:
        producer.begin_transaction()
        for record in (record for of_partition in records.values() for record in of_partition):
            producer.send(self.to_topic, record.value.upper(), key=str(record.offset).encode())
        read_up_to = {place: OffsetAndMetadata(found[-1].offset + 1, "", -1) for place, found in records.items()}
        producer.send_offsets_to_transaction(read_up_to, member)
        producer.commit_transaction()

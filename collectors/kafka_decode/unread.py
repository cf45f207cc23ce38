"""Decides from a fetched partition whether there are records between an offset and the log end.

Transaction markers take offsets but are never delivered to consumers. Nor are, with read_committed, the records of an
aborted transaction.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from collectors.kafka_decode.fetch import FetchedPartition
from collectors.kafka_decode.record_batches import BatchHeaders, read_batch_headers, scan_batches
from collectors.kafka_decode.record_columns import ABORT, read_markers
from lagwatch.broker_queries import TailContent


def tail_content(body: bytes, fetched: FetchedPartition, end: int) -> TailContent:
    """What a partition holds between its fetch offset and `end`.

    It must have been fetched with `committed_only`, so that the aborted transactions are listed. UNKNOWN if the response
    does not reach `end`: a large batch was truncated, or a transaction is open.
    """
    scan = scan_batches(body, fetched.start, fetched.end, fetched.partition)
    batches = read_batch_headers(body, scan.starts, np.full(len(scan.starts), fetched.partition, np.int32))
    before_end = batches.base_offset < end  # later records are not part of the query
    if (
        before_end & ~(batches.is_control | (batches.records == 0) | _is_aborted(body, batches, fetched.aborted))
    ).any():
        return TailContent.RECORDS
    if scan.damaged or scan.next_offset is None or scan.next_offset < end:
        return TailContent.UNKNOWN
    return TailContent.NOTHING


def _is_aborted(body: bytes, batches: BatchHeaders, aborted: list[tuple[int, int]]) -> npt.NDArray[np.bool_]:
    """Which batches belong to aborted transactions.

    A transaction lasts from its first offset to the next marker of its producer, who may commit the one after it.
    """
    markers = read_markers(body, batches)
    found = np.zeros(len(batches), dtype=bool)
    waiting = sorted(aborted, key=lambda one: one[1])
    open_producers: set[int] = set()
    for number in range(len(batches)):
        producer, base = int(batches.producer[number]), int(batches.base_offset[number])
        while waiting and waiting[0][1] <= base:
            open_producers.add(waiting.pop(0)[0])
        if markers[number] == ABORT:
            open_producers.discard(producer)
        found[number] = batches.is_transactional[number] and producer in open_producers
    return found

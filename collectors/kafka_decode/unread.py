"""Is there anything to read between an offset and the end? One partition of a Fetch answer enters, the answer leaves.

Markers that end transactions take offsets, and no consumer reads them. Nor does one that reads only what was committed
get the records of an aborted transaction.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from collectors.kafka_decode.fetch import FetchedPartition
from collectors.kafka_decode.record_batches import Batches, read_heads, walk_batches
from collectors.kafka_decode.record_columns import ABORT, read_markers
from lagwatch.queries import TailContent


def what_is_left(body: bytes, fetched: FetchedPartition, end: int) -> TailContent:
    """What a partition has before `end`, from where it was fetched on.

    It must have been fetched as committed only, so that the aborted transactions are named. Not told is what the answer
    does not reach: the rest of a large batch, or what stands behind an open transaction.
    """
    walked = walk_batches(body, fetched.start, fetched.end, fetched.partition)
    batches = read_heads(body, walked.places, np.full(len(walked.places), fetched.partition, np.int32))
    asked = batches.base_offset < end  # what came after the question is not part of it
    if (asked & ~(batches.is_control | (batches.records == 0) | _is_aborted(body, batches, fetched.aborted))).any():
        return TailContent.RECORDS
    if walked.damaged or walked.next_offset is None or walked.next_offset < end:
        return TailContent.UNKNOWN
    return TailContent.NOTHING


def _is_aborted(body: bytes, batches: Batches, aborted: list[tuple[int, int]]) -> npt.NDArray[np.bool_]:
    """Which batches are of transactions that were taken back.

    A transaction lasts from its first offset to the marker of its producer; the next one of that producer may be another.
    """
    markers = read_markers(body, batches)
    found = np.zeros(len(batches), dtype=bool)
    waiting = sorted(aborted, key=lambda one: one[1])
    running: set[int] = set()
    for number in range(len(batches)):
        producer, base = int(batches.producer[number]), int(batches.base_offset[number])
        while waiting and waiting[0][1] <= base:
            running.add(waiting.pop(0)[0])
        if markers[number] == ABORT:
            running.discard(producer)
        found[number] = batches.is_transactional[number] and producer in running
    return found

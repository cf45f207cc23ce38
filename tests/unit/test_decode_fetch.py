"""Decoding Fetch responses: where the records are, for any response kafka-python can encode."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.protocol.consumer import FetchResponse

from collectors.kafka_decode.fetch import decode_fetch

offsets = st.integers(-1, 2**63 - 1)
parts = st.lists(
    st.tuples(
        st.integers(0, 1000),
        st.sampled_from([0, 1, 6, 29]),
        offsets,
        st.none() | st.lists(st.tuples(offsets, offsets), max_size=3),
        st.none() | st.binary(max_size=300),
    ),
    max_size=6,
)


@settings(deadline=None)
@given(parts, st.sampled_from([0, 71]))
def test_the_records_of_each_partition_are_found(made: list[tuple[Any, ...]], error: int) -> None:
    topic = FetchResponse.FetchableTopicResponse
    partition = topic.PartitionData
    answer = FetchResponse(
        throttle_time_ms=7,
        error_code=error,
        session_id=3,
        responses=[
            topic(
                topic="__consumer_offsets",
                partitions=[
                    partition(
                        partition_index=number,
                        error_code=code,
                        high_watermark=end,
                        last_stable_offset=end,
                        log_start_offset=0,
                        aborted_transactions=aborted
                        and [partition.AbortedTransaction(producer_id=p, first_offset=o) for p, o in aborted],
                        preferred_read_replica=-1,
                        records=records,
                    )
                    for number, code, end, aborted, records in made
                ],
            )
        ],
    )

    body = bytes(answer.encode(version=12))
    found = decode_fetch(body)

    assert found.error == error
    assert [
        (p.topic, p.partition, p.error, p.end_offset, p.aborted, body[p.start : p.end]) for p in found.partitions
    ] == [
        ("__consumer_offsets", number, code, end, aborted or [], records or b"")
        for number, code, end, aborted, records in made
    ]

"""Fills the offsets topic by real OffsetCommit requests, shaped like those of consumers."""

from __future__ import annotations

from typing import Any

from kafka.protocol.consumer import OffsetCommitRequest

from collectors.kafka_client.connection import ConnectionOptions, KafkaConnection
from collectors.kafka_client.connection_interface import Deadline
from lagwatch.demo.kafka_cluster import KafkaCluster
from lagwatch.errors import SourceError

TOPIC = "load"
PARTITIONS = 200
_AT_ONCE = 200


def fill_offsets_topic(
    kafka: KafkaCluster, commits: int, *, groups: int, partitions_a_commit: int, after: int = 0
) -> None:
    """Make `commits` commits by alternating groups, several partitions per request; for a cluster of one broker.

    `after` is the number of commits made by earlier calls.
    """
    if not after:
        kafka.create_topic(TOPIC, partitions=PARTITIONS)
        kafka.commit("load-first", {(TOPIC, 0): 0})  # creates the offsets topic
    begin, requests = after // partitions_a_commit, (after + commits) // partitions_a_commit
    connection = KafkaConnection(ConnectionOptions((kafka.bootstrap,)))
    try:
        for first in range(begin, requests, _AT_ONCE):
            numbers = range(first, min(first + _AT_ONCE, requests))

            async def send(deadline: Deadline, numbers: range = numbers) -> None:
                to_send = [_request(number, groups, partitions_a_commit) for number in numbers]
                for answer in await connection.gather(
                    [connection.request(1, request, deadline) for request in to_send]
                ):
                    if isinstance(answer, SourceError):
                        raise answer
                    codes = {part.error_code for topic in answer.topics for part in topic.partitions}
                    assert codes == {0}, codes

            connection.run(send, 60)
    finally:
        connection.close()


def _request(number: int, groups: int, partitions: int) -> Any:
    """Each group commits the same partitions every time, with higher offsets."""
    group, turn = number % groups, number // groups
    first = group * partitions % PARTITIONS
    topic = OffsetCommitRequest.OffsetCommitRequestTopic
    partition = topic.OffsetCommitRequestPartition
    return OffsetCommitRequest(
        group_id=f"load-group-{group}",
        generation_id_or_member_epoch=-1,
        member_id="",
        topics=[
            topic(
                name=TOPIC,
                partitions=[
                    partition(
                        partition_index=(first + place) % PARTITIONS,
                        committed_offset=turn * 1000 + place,
                        committed_leader_epoch=-1,
                        committed_metadata="",
                    )
                    for place in range(partitions)
                ],
            )
        ],
        max_version=9,  # later versions identify topics by id
    )

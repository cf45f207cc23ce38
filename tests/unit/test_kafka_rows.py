"""Rows of a poll from the responses of brokers."""

from __future__ import annotations

import numpy as np
import pytest

from collectors.kafka_decode.metadata import Metadata, MetadataBroker
from collectors.kafka_decode.offsets import CommittedOffsets
from collectors.kafka_rows.poll import poll_batches
from collectors.kafka_rows.poll_answers import ListedGroup, PollAnswers

NOT_COORDINATOR = 16
ONE, NONE = np.zeros(1, np.int32), np.zeros(0, np.int32)
BROKERS = [MetadataBroker(node, "host", 9092, None) for node in (1, 2)]
METADATA = Metadata(
    "id", BROKERS, ["t"], ["topic-id"], {}, ONE.astype(np.int64), ONE, ONE, ONE + 1, ONE + 1, ONE + 1, ONE + 1, ONE + 1,
    NONE.astype(np.int64), NONE,
)  # fmt: skip
REFUSED = CommittedOffsets(["g"], {"g": NOT_COORDINATOR}, [], NONE, NONE, NONE, NONE.astype(np.int64), NONE)
ANSWERED = CommittedOffsets(["g"], {}, ["t"], ONE, ONE, ONE, np.array([7]), ONE)


@pytest.mark.parametrize("commits", [[REFUSED, ANSWERED], [ANSWERED, REFUSED], [ANSWERED, ANSWERED]])
def test_commits_of_a_group_with_a_moving_coordinator_come_from_the_one_that_responds(
    commits: list[CommittedOffsets],
) -> None:
    groups = [ListedGroup("g", "Stable", "classic", "consumer", broker) for broker in (1, 2)]
    answers = PollAnswers(METADATA, groups, groups_with_commits={"g"}, commits=commits)
    batches = {batch.table: batch for batch in poll_batches("east", 0, answers, lambda _: True, {})}
    rows = batches["consumer_lag"].rows.to_pylist()
    assert [(row["group"], row["topic"], row["partition"], row["committed_offset"]) for row in rows] == [
        ("g", "t", 0, 7)
    ]

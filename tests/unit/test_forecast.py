"""Forecast of when retention deletes unread messages: by time, by size, and never."""

from __future__ import annotations

from typing import Any

import pytest

from lagwatch.batch import Batch, make_batch
from lagwatch.catalogue import TOPIC, TOPIC_PARTITION
from lagwatch.protocols import Collected
from tests.harness.simulated_consumers import Behaviour, Simulation, gone, keeping_up, reading, then

HOUR_MS = 3_600_000


def configs(**limits: Any) -> Batch:
    """What the configs job brings of the topic."""
    columns = {"retention_ms": -1, "retention_bytes": -1, "cleanup_policy": "delete", **limits}
    return make_batch(TOPIC, "east", 0, {"topic": ["g"], **{name: [value] for name, value in columns.items()}})


def sizes(size_bytes: int) -> Batch:
    """What the log dirs job brings of its partition."""
    return make_batch(TOPIC_PARTITION, "east", 0, {"topic": ["g"], "partition": [0], "size_bytes": [size_bytes]})


def group_after(seconds: int, behaviour: Behaviour, *observed: tuple[str, Batch], rate: float = 20.0) -> dict[str, Any]:
    simulation = Simulation({"g": (behaviour, rate)})
    for source, batch in observed:
        simulation.see(source, Collected([batch], []))
    simulation.run(seconds)
    (group,) = simulation.rows("consumer_group")
    return group


def test_a_stopped_group_loses_messages_when_its_oldest_reaches_retention() -> None:
    group = group_after(900, then(keeping_up(1), 300, gone), ("kafka_configs", configs(retention_ms=HOUR_MS)))
    assert group["loss_seconds"] == pytest.approx(3600 - 600, abs=20)


def test_a_group_at_half_speed_has_twice_as_long() -> None:
    group = group_after(900, reading(10), ("kafka_configs", configs(retention_ms=HOUR_MS)))
    assert group["loss_seconds"] == pytest.approx((3600 - 450) * 2, rel=0.1)


def test_by_size_the_log_start_follows_the_end_once_the_partition_is_full() -> None:
    observed = configs(retention_bytes=1_800_000)
    # 18,000 messages of 100 bytes by then: full. 6,000 were read, and 20 come each second.
    group = group_after(
        900, then(keeping_up(1), 300, gone), ("kafka_configs", observed), ("kafka_logdirs", sizes(1_800_000))
    )
    assert group["loss_seconds"] == pytest.approx(6000 / 20, rel=0.1)


@pytest.mark.parametrize(
    ("behaviour", "observed", "reason"),
    [
        (keeping_up(1), configs(retention_ms=HOUR_MS), "it keeps up"),
        (then(gone, 300, reading(60)), configs(retention_ms=HOUR_MS), "it catches up"),
        (then(keeping_up(1), 300, gone), configs(), "nothing is ever deleted"),
        (then(keeping_up(1), 300, gone), configs(retention_ms=HOUR_MS, cleanup_policy="compact"), "only compacted"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_no_loss_is_forecast_where_there_is_none(behaviour: Behaviour, observed: Batch, reason: str) -> None:
    assert group_after(600, behaviour, ("kafka_configs", observed))["loss_seconds"] is None, reason


def test_no_loss_is_forecast_where_retention_is_unknown() -> None:
    assert group_after(600, then(keeping_up(1), 300, gone))["loss_seconds"] is None


def test_nothing_is_forecast_for_rare_commits_before_their_interval_is_known() -> None:
    group = group_after(200, keeping_up(120), ("kafka_configs", configs(retention_ms=HOUR_MS)))
    assert (group["falling_behind"], group["loss_seconds"], group["catch_up_seconds"]) == (False, None, 0)

"""A thousand kills of the agent while it writes."""

from __future__ import annotations

import random
from pathlib import Path

from lagwatch.demo.kafka_cluster import KafkaCluster
from tests.harness.kills import kill_agent_while_it_writes


def test_a_thousand_kills_lose_nothing_and_double_nothing(kafka: KafkaCluster, tmp_path: Path) -> None:
    kafka.create_topic("killed", partitions=3, replication=1)
    kafka.commit("killed", {("killed", p): 0 for p in range(3)})
    kill_agent_while_it_writes(tmp_path, kafka.bootstrap, kills=1000, random=random.Random(1))

"""Consumers on a real cluster, evaluated by a real agent: from polls, from the offsets topic, and by Burrow's rules."""

from __future__ import annotations

from pathlib import Path

import pytest

from lagwatch.demo.kafka_cluster import KafkaCluster
from tests.harness.burrow_replay import BurrowReplay
from tests.harness.verdict_stories import delete_group, overtake, stories, table_of, told_by_an_agent
from tests.harness.waiting import wait_until


@pytest.mark.timeout(900)
def test_every_consumer_gets_its_expected_verdict_from_both_sources(kafka: KafkaCluster, tmp_path: Path) -> None:
    told = stories()
    with told_by_an_agent(kafka, tmp_path, told) as watched:

        def all_told_but(*names: str) -> bool:
            watched.look()
            return all(watched.told(story) for story in told if story.name not in names)

        wait_until(lambda: bool(kafka.committed("story-deleted")), 60, "the group that is to be deleted never worked")
        wait_until(lambda: delete_group(kafka, "story-deleted"), 60, "nor did it end")
        wait_until(lambda: all_told_but("overtaken"), 300, lambda: table_of(watched, told))
        overtake(kafka)
        wait_until(all_told_but, 60, lambda: table_of(watched, told))
        polls = list(watched.agent.reader.tail())

    print(table_of(watched, told))
    assert {story.name: watched.wrongs(story) for story in told} == {story.name: [] for story in told}
    late = {
        story.name: watched.first(cluster, story)
        for story in told
        for cluster in ("polls", "topic")
        if story.within and story.name != "overtaken" and (watched.first(cluster, story) or 0) > story.within
    }
    assert late == {}
    compared = list(BurrowReplay("burrow").compare(polls))
    assert [one for one in compared if one[2] != one[3]] == []
    assert len(compared) > 300

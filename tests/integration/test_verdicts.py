"""Consumers on a real cluster, evaluated by a real agent: from polls, from the offsets topic, and by Burrow's rules."""

from __future__ import annotations

from pathlib import Path

import pytest

from lagwatch.demo.kafka_cluster import KafkaCluster
from tests.harness.burrow_replay import BurrowReplay
from tests.harness.verdict_stories import delete_group, monitored_stories, overtake, stories, table_of
from tests.harness.waiting import wait_until


@pytest.mark.timeout(900)
def test_every_consumer_gets_its_expected_verdict_from_both_sources(kafka: KafkaCluster, tmp_path: Path) -> None:
    all_stories = stories()
    with monitored_stories(kafka, tmp_path, all_stories) as watched:

        def all_reported_except(*names: str) -> bool:
            watched.look()
            return all(watched.reported(story) for story in all_stories if story.name not in names)

        wait_until(lambda: bool(kafka.committed("story-deleted")), 60, "the group that is to be deleted never worked")
        wait_until(lambda: delete_group(kafka, "story-deleted"), 60, "nor did it end")
        wait_until(lambda: all_reported_except("overtaken"), 300, lambda: table_of(watched, all_stories))
        overtake(kafka)
        wait_until(all_reported_except, 60, lambda: table_of(watched, all_stories))
        polls = list(watched.agent.reader.tail())

    print(table_of(watched, all_stories))
    assert {story.name: watched.wrongs(story) for story in all_stories} == {story.name: [] for story in all_stories}
    late = {
        story.name: watched.first(cluster, story)
        for story in all_stories
        for cluster in ("polls", "topic")
        if story.within and story.name != "overtaken" and (watched.first(cluster, story) or 0) > story.within
    }
    assert late == {}
    compared = list(BurrowReplay("burrow").compare(polls))
    assert [one for one in compared if one[2] != one[3]] == []
    assert len(compared) > 300

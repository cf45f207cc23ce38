"""How the rows of a poll are split into requests to InfluxDB."""

from __future__ import annotations

from lagwatch.batch import Batch, make_batch
from lagwatch.catalogue import CONSUMER_GROUP, TOPIC
from lagwatch.sinks.influx.sink import InfluxOptions, InfluxSink


def topics(count: int, name: str = "t") -> Batch:
    return make_batch(TOPIC, "east", 5, {"topic": [f"{name}{n}" for n in range(count)], "partitions": [1] * count})


def requests(*batches: Batch) -> list[list[bytes]]:
    sink = InfluxSink(InfluxOptions("http://influxdb:8086", "ops", "kafka", "token"))
    return [body.splitlines() for body in sink._bodies(batches)]


def test_the_small_batches_of_a_poll_go_together() -> None:
    group = make_batch(CONSUMER_GROUP, "east", 5, {"group": ["g"], "members": [2]})

    assert requests(topics(1), group) == [
        [b"topic,cluster=east,topic=t0 partitions=1i 5", b"consumer_group,cluster=east,group=g members=2i 5"]
    ]


def test_large_ones_are_cut_and_nothing_is_left_out_or_sent_twice() -> None:
    sent = requests(topics(9_999, "a"), topics(15_003, "b"), topics(0), topics(2, "c"))

    assert [len(body) for body in sent] == [10_000, 10_000, 5_004]
    assert len({line for body in sent for line in body}) == 9_999 + 15_003 + 2


def test_a_poll_without_rows_makes_no_request() -> None:
    assert requests(topics(0)) == []
    assert requests() == []

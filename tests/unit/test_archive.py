"""The Parquet archive as a sink: what becomes a file, when, and in which order."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from lagwatch.batch import Batch, make_batch
from lagwatch.catalogue import (
    AGENT,
    BUILT_IN,
    CLUSTER,
    CONSUMER_LAG,
    EVENT,
    TOPIC_PARTITION,
    Catalogue,
    Field,
    Kind,
    Table,
)
from lagwatch.errors import SinkError
from lagwatch.sinks.archive import hour as archive_hour
from lagwatch.sinks.archive import reading as archive_reading
from lagwatch.sinks.archive.sink import ArchiveSink, archive_schema, archived_batches
from tests.harness.archives import (
    HOUR_MS,
    NOON_MS,
    Sinks,
    ends,
    events,
    expected_rows,
    files_of,
    lag,
    names,
    opened_sinks,
    rows_of,
    sizes,
)

MINUTE_MS = 60_000
LATER_MS = NOON_MS + 12 * HOUR_MS


@pytest.fixture
def sink() -> Iterator[Sinks]:
    with opened_sinks() as sinks:
        yield sinks


def feed(archive: ArchiveSink, *polls: list[Batch], first: int = 1) -> int:
    """Write these polls; returns the number of the last."""
    for number, batches in enumerate(polls, first):
        archive.write(number, batches)
    return first + len(polls) - 1


def test_an_hour_is_one_file_by_table_day_and_cluster(sink: Sinks, tmp_path: Path) -> None:
    archive = sink(tmp_path)
    feed(archive, [lag(NOON_MS), events(NOON_MS, "g")], [lag(NOON_MS + 1, "west")], [lag(NOON_MS + 2 * HOUR_MS)])
    assert files_of(tmp_path) == [
        "consumer_lag/day=2026-01-01/cluster=east/12.parquet",
        "consumer_lag/day=2026-01-01/cluster=west/12.parquet",
        "event/day=2026-01-01/cluster=east/12.parquet",
    ]


def test_nothing_is_settled_before_its_hour_is_a_file(sink: Sinks, tmp_path: Path) -> None:
    archive = sink(tmp_path)
    feed(archive, [lag(NOON_MS)], [lag(NOON_MS + HOUR_MS)], [lag(NOON_MS + HOUR_MS + 4 * MINUTE_MS)])
    assert archive.settled(3) == 0, "a slow poll of another cluster may still bring rows of the old hour"
    assert files_of(tmp_path) == []
    archive.write(4, [lag(NOON_MS + HOUR_MS + 5 * MINUTE_MS)])
    assert archive.settled(4) == 1
    assert archive.settled(1) == 1


def test_polls_without_rows_are_settled_at_once(sink: Sinks, tmp_path: Path) -> None:
    archive = sink(tmp_path)
    feed(archive, [], [make_batch(EVENT, "east", NOON_MS, {"kind": []})])
    assert archive.settled(2) == 2


def test_the_agents_own_polls_finish_the_hour_of_a_cluster_that_was_removed(sink: Sinks, tmp_path: Path) -> None:
    archive = sink(tmp_path)
    own = make_batch(AGENT, "", NOON_MS + 2 * HOUR_MS, {"agent": ["host"], "job": [""]})
    feed(archive, [lag(NOON_MS)], [own])
    assert archive.settled(2) == 1
    archive.write(3, [lag(LATER_MS)])
    assert "agent/day=2026-01-01/cluster=_agent/14.parquet" in files_of(tmp_path)
    (row,) = ds.dataset(tmp_path / "agent", partitioning="hive").to_table().to_pylist()
    assert (row["cluster"], row["agent"]) == ("_agent", "host")
    assert [row[0] for row in rows_of(tmp_path, AGENT)] == [None]


def test_rows_are_sorted_by_series_then_time(sink: Sinks, tmp_path: Path) -> None:
    archive = sink(tmp_path)
    polls = [lag(NOON_MS + minute * MINUTE_MS, groups=5) for minute in (2, 0, 1)]
    feed(archive, *([poll] for poll in polls), [lag(LATER_MS)])
    found = rows_of(tmp_path)
    assert found == sorted(found, key=lambda row: (row[2], row[3], row[4], row[1]))
    assert set(found) == set(expected_rows(*polls))
    assert len(found) == 30


def test_an_hour_larger_than_a_chunk_is_the_same_hour(
    sink: Sinks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive_hour, "CHUNK_ROWS", 1000)
    archive = sink(tmp_path)
    # Groups come and go, so that no two polls have the same series at the same place.
    polls = [lag(NOON_MS + minute * MINUTE_MS, groups=100 + minute * 7 % 60, partitions=5) for minute in range(20)]
    feed(archive, *([poll] for poll in polls), [lag(LATER_MS)])
    found = rows_of(tmp_path)
    assert found == sorted(expected_rows(*polls), key=lambda row: (row[2], row[3], row[4], row[1]))
    (file,) = tmp_path.rglob("*.parquet")
    groups = pq.ParquetFile(file).metadata
    assert groups.num_row_groups > 5
    tops = [groups.row_group(number).column(1).statistics.max for number in range(groups.num_row_groups)]
    assert tops == sorted(tops), "row groups can be skipped by group"
    archive.write(30, [lag(NOON_MS + 30_000, groups=1)])
    archive.write(31, [lag(LATER_MS)])
    assert [row for row in rows_of(tmp_path) if row[1] < LATER_MS] == found, (
        "a late poll of a minute that has one changes nothing"
    )


def test_partition_rows_are_kept_once_a_minute_and_others_always(sink: Sinks, tmp_path: Path) -> None:
    archive = sink(tmp_path)
    times = [NOON_MS + second * 1000 for second in range(0, 180, 20)]
    feed(archive, *([lag(at), events(at, "g")] for at in times), [lag(LATER_MS)])
    assert {row[1] for row in rows_of(tmp_path)} == set(times[::3])
    assert [row[1] for row in rows_of(tmp_path, EVENT)] == times


def test_partition_rows_are_kept_at_the_configured_interval(sink: Sinks, tmp_path: Path) -> None:
    archive = sink(tmp_path, partition_rows_every_seconds=0)
    times = [NOON_MS + second * 1000 for second in range(0, 180, 20)]
    feed(archive, *([lag(at)] for at in times), [lag(LATER_MS)])
    assert len({row[1] for row in rows_of(tmp_path)}) == 9


def test_one_job_does_not_displace_rows_of_another_in_the_same_table(sink: Sinks, tmp_path: Path) -> None:
    archive = sink(tmp_path)
    feed(
        archive,
        [sizes(NOON_MS)],
        [ends(NOON_MS + 1000)],
        [ends(NOON_MS + 2000)],
        [sizes(NOON_MS + 3000), ends(NOON_MS + 3000)],
        [lag(LATER_MS)],
    )
    assert [row[1] - NOON_MS for row in rows_of(tmp_path, TOPIC_PARTITION)] == [0, 1000]
    # In an existing file the jobs can be distinguished as well.
    feed(archive, [ends(NOON_MS + 500)], [sizes(NOON_MS + 700)], [lag(LATER_MS)], first=9)
    assert [row[1] - NOON_MS for row in rows_of(tmp_path, TOPIC_PARTITION)] == [0, 500]


def test_rows_of_two_jobs_in_one_millisecond_are_merged(sink: Sinks, tmp_path: Path) -> None:
    archive = sink(tmp_path)
    one = make_batch(CLUSTER, "east", NOON_MS, {"brokers": [3], "topics": [7]})
    other = make_batch(CLUSTER, "east", NOON_MS, {"active_controllers": [1], "brokers": [4]})
    feed(archive, [one], [other], [lag(LATER_MS)])
    (row,) = ds.dataset(tmp_path / "cluster", partitioning="hive").to_table().to_pylist()
    assert (row["topics"], row["brokers"], row["active_controllers"]) == (7, 4, 1)


def test_two_events_of_one_kind_in_one_poll_are_two(sink: Sinks, tmp_path: Path) -> None:
    archive = sink(tmp_path)
    feed(archive, [events(NOON_MS, "a", "b")], [events(NOON_MS, "a", "b", "c")], [lag(LATER_MS)])
    assert [row[3] for row in rows_of(tmp_path, EVENT)] == ["a", "b", "c"]


def test_late_rows_join_an_hour_that_is_a_file_already(sink: Sinks, tmp_path: Path) -> None:
    archive = sink(tmp_path)
    first, late = lag(NOON_MS), lag(NOON_MS + 2 * MINUTE_MS)
    feed(archive, [first], [lag(LATER_MS)], [late], [first], [lag(LATER_MS)])
    found = rows_of(tmp_path)
    assert [row for row in found if row[1] < LATER_MS] == sorted(
        expected_rows(first, late), key=lambda row: (row[2], row[3], row[4], row[1])
    )
    assert archive.settled(5) == 4, "the hour of the step back is done, the present one is open"


def test_a_clock_that_was_a_year_ahead_does_not_make_every_poll_late(sink: Sinks, tmp_path: Path) -> None:
    archive = sink(tmp_path)
    feed(archive, [lag(NOON_MS + 365 * 24 * HOUR_MS)], [lag(NOON_MS)], [lag(NOON_MS + MINUTE_MS)])
    assert files_of(tmp_path) == ["consumer_lag/day=2027-01-01/cluster=east/12.parquet"]
    assert archive.settled(3) == 1


def test_a_field_added_later_is_absent_in_older_rows_and_one_removed_stays(sink: Sinks, tmp_path: Path) -> None:
    extra = Field("heat", Kind.FLOAT, "how hot")
    longer = Table("consumer_lag", "", CONSUMER_LAG.tags, (*CONSUMER_LAG.fields, extra))
    with_heat = make_batch(longer, "east", NOON_MS, {"group": ["g"], "topic": ["t"], "partition": [1], "heat": [0.5]})
    later = lag(NOON_MS + MINUTE_MS, groups=1, partitions=1)
    feed(sink(tmp_path, catalogue=Catalogue((longer,))), [with_heat], [lag(LATER_MS)])
    feed(sink(tmp_path), [later], [with_heat], [lag(LATER_MS)])
    found = ds.dataset(tmp_path / "consumer_lag", partitioning="hive").to_table()
    assert found.filter(ds.field("group") == "g")["heat"].to_pylist() == [0.5]
    feed(sink(tmp_path, catalogue=Catalogue((longer,))), [later], [lag(LATER_MS)])
    found = ds.dataset(tmp_path / "consumer_lag", partitioning="hive").to_table()
    assert found.sort_by("at")["heat"].to_pylist() == [0.5, None]


def test_the_schema_of_a_file_is_the_catalogues(sink: Sinks, tmp_path: Path) -> None:
    feed(sink(tmp_path), [lag(NOON_MS)], [lag(LATER_MS)])
    (file,) = tmp_path.rglob("*.parquet")
    assert pq.read_schema(file).remove_metadata().equals(archive_schema(CONSUMER_LAG))
    assert archive_schema(CONSUMER_LAG).field("at").type == pa.timestamp("ms", "UTC")
    column = pq.ParquetFile(file).metadata.row_group(0).column(1)
    assert column.compression == "ZSTD"
    assert "RLE_DICTIONARY" in column.encodings
    assert all(archive_schema(table).names[0] == "at" for table in BUILT_IN)


def test_long_series_are_delta_encoded(sink: Sinks, tmp_path: Path) -> None:
    archive = sink(tmp_path, partition_rows_every_seconds=1)
    feed(archive, *([lag(NOON_MS + second * 1000)] for second in range(301)), [lag(LATER_MS)])
    (file,) = tmp_path.rglob("*.parquet")
    group = pq.ParquetFile(file).metadata.row_group(0)
    encodings = {group.column(n).path_in_schema: group.column(n).encodings for n in range(group.num_columns)}
    assert "DELTA_BINARY_PACKED" in encodings["committed_offset"]
    assert "DELTA_BINARY_PACKED" not in encodings["partition"]
    assert len(rows_of(tmp_path)) == 301 * 6


@pytest.mark.parametrize(
    "cluster",
    [
        "a/b",
        "../../etc",
        "a=b",
        "a b",
        "%41",
        "é日本",
        "line\nbreak",
        "😀" * 60,
        "x" * 300,
        "__HIVE_DEFAULT_PARTITION__",
    ],
)
def test_any_cluster_name_is_a_folder_and_comes_back(sink: Sinks, tmp_path: Path, cluster: str) -> None:
    root = tmp_path / "archive"
    batch = lag(NOON_MS, cluster)
    feed(sink(root), [batch], [lag(LATER_MS)])
    assert [path.name for path in tmp_path.iterdir()] == ["archive"]
    assert {row[0] for row in rows_of(root)} == {cluster}
    (found,) = archived_batches(str(root), CONSUMER_LAG, NOON_MS, NOON_MS + 1, [cluster])
    assert found.cluster == cluster
    if len(cluster) < 50 and not cluster.startswith("__"):
        read = ds.dataset(root / "consumer_lag", partitioning="hive").to_table(filter=ds.field("cluster") == cluster)
        assert read.num_rows == 6


def test_batches_come_back_as_they_went_in(sink: Sinks, tmp_path: Path) -> None:
    polls = [lag(NOON_MS + minute * 7 * MINUTE_MS, cluster) for minute in range(20) for cluster in ("west", "east")]
    feed(sink(tmp_path), *([poll] for poll in polls), [lag(LATER_MS)])
    found = list(archived_batches(str(tmp_path), CONSUMER_LAG, NOON_MS + 1, NOON_MS + HOUR_MS + 24 * MINUTE_MS + 1))
    assert [(batch.at_ms // HOUR_MS, batch.cluster, batch.at_ms) for batch in found] == sorted(
        (poll.at_ms // HOUR_MS, poll.cluster, poll.at_ms)
        for poll in polls
        if 0 < poll.at_ms - NOON_MS <= 84 * MINUTE_MS
    )
    sent = {(poll.cluster, poll.at_ms): poll for poll in polls}
    for batch in found:
        assert batch.rows.schema == CONSUMER_LAG.schema
        assert set(expected_rows(batch)) == set(expected_rows(sent[batch.cluster, batch.at_ms]))
    of_west = expected_rows(*archived_batches(str(tmp_path), CONSUMER_LAG, 0, LATER_MS, ["west"]))
    assert {row[0] for row in of_west} == {"west"}
    assert list(archived_batches(str(tmp_path), TOPIC_PARTITION, 0, LATER_MS)) == []


def test_a_large_hour_comes_back_in_several_passes_whole_and_in_order(
    sink: Sinks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive_reading, "_ROWS_AT_ONCE", 7)
    times = [NOON_MS + minute * MINUTE_MS for minute in range(60)]
    feed(sink(tmp_path), *([lag(at)] for at in times), [lag(LATER_MS)])
    found = list(archived_batches(str(tmp_path), CONSUMER_LAG, NOON_MS, LATER_MS))
    assert [batch.at_ms for batch in found] == times
    assert {len(batch) for batch in found} == {6}
    found = list(archived_batches(str(tmp_path), CONSUMER_LAG, times[3] + 1, times[7]))
    assert [batch.at_ms for batch in found] == times[4:7]


def test_group_names_come_back_as_they_are(sink: Sinks, tmp_path: Path) -> None:
    feed(sink(tmp_path), [lag(NOON_MS)], [lag(LATER_MS)])
    assert {row[2] for row in rows_of(tmp_path)} == set(names(3))


def test_a_table_missing_from_the_catalogue_is_skipped_and_reported_once(
    sink: Sinks, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    archive = sink(tmp_path, catalogue=Catalogue((EVENT,)))
    feed(archive, [lag(NOON_MS)], [lag(NOON_MS), events(NOON_MS, "a")], [events(LATER_MS, "b")])
    assert files_of(tmp_path) == ["event/day=2026-01-01/cluster=east/12.parquet"]
    assert caplog.text.count("table=consumer_lag") == 1


def test_rows_that_do_not_match_their_table_are_rejected(sink: Sinks, tmp_path: Path) -> None:
    archive = sink(tmp_path)
    rows = pa.RecordBatch.from_pydict({"kind": ["x"], "subject": [{"no": "text"}]})
    with pytest.raises(SinkError, match="rows do not fit their table") as caught:
        archive.write(1, [events(NOON_MS, "a"), Batch("event", "east", NOON_MS, rows)])
    assert not caught.value.retriable
    assert archive.settled(1) == 1, "nothing of the poll was taken"


def test_close_drops_rows_that_are_shipped_again(sink: Sinks, tmp_path: Path) -> None:
    archive = sink(tmp_path)
    archive.write(1, [lag(NOON_MS)])
    archive.close()
    archive.close()
    assert files_of(tmp_path) == []

"""The archive on other kinds of filesystems, and its errors when they fail."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyarrow import fs

from lagwatch.catalogue import CONSUMER_LAG
from lagwatch.errors import SinkError
from lagwatch.sinks.archive.sink import archived_batches
from lagwatch.sinks.archive.store import ArchiveStore, explain
from tests.harness.archives import HOUR_MS, NOON_MS, Sinks, expected_rows, files_of, lag, opened_sinks, rows_of
from tests.harness.object_store import ObjectStore

LATER_MS = NOON_MS + 12 * HOUR_MS
FILE = "consumer_lag/day=2026-01-01/cluster=east/12.parquet"
NEXT = "consumer_lag/day=2026-01-02/cluster=east/00.parquet"


@pytest.fixture
def sink() -> Iterator[Sinks]:
    with opened_sinks() as sinks:
        yield sinks


def noon(root: Path | str, **options: fs.FileSystem) -> set[tuple[object, ...]]:
    """The rows of the hour the tests write, each of which may be there once."""
    found = [row for row in rows_of(root, **options) if row[1] < LATER_MS]
    assert len(found) == len(set(found))
    return set(found)


@pytest.mark.parametrize("form", ["{0}", "{0}/", "file://{0}"])
def test_a_local_folder_is_named_by_path_or_url(sink: Sinks, tmp_path: Path, form: str) -> None:
    archive = sink(form.format(tmp_path / "a b"))
    archive.write(1, [lag(NOON_MS)])
    archive.write(2, [lag(LATER_MS)])
    assert files_of(tmp_path / "a b") == [FILE]


def test_a_relative_path_is_taken_from_where_the_agent_runs(
    sink: Sinks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    archive = sink("some/archive")
    archive.write(1, [])
    assert (tmp_path / "some/archive").is_dir()


def test_the_constructor_touches_nothing(sink: Sinks, tmp_path: Path) -> None:
    sink(tmp_path / "archive")
    sink("s3://no-such-bucket/archive")
    assert list(tmp_path.iterdir()) == []


def test_a_filesystem_pyarrow_cannot_open_is_reported_and_retried(sink: Sinks) -> None:
    with pytest.raises(SinkError, match="archive nonsense://x/y") as caught:
        sink("nonsense://x/y").write(1, [])
    assert caught.value.retriable


def test_a_folder_inside_a_filesystem_is_an_archive_too(sink: Sinks, tmp_path: Path) -> None:
    inside = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())
    archive = sink("archive", filesystem=inside)
    archive.write(1, [lag(NOON_MS)])
    archive.write(2, [lag(LATER_MS)])
    assert files_of(tmp_path) == [f"archive/{FILE}"]
    assert noon("archive", filesystem=inside) == set(expected_rows(lag(NOON_MS)))


def test_an_object_store_gets_each_file_in_one_piece(sink: Sinks, tmp_path: Path) -> None:
    bucket = ObjectStore()
    archive = sink("bucket/archive", filesystem=bucket.filesystem(), spool_folder=tmp_path)
    late = lag(NOON_MS + 60_000)
    for number, batch in enumerate((lag(NOON_MS), lag(LATER_MS), late, lag(LATER_MS)), 1):
        archive.write(number, [batch])
    assert set(bucket.objects) == {f"bucket/archive/{FILE}", f"bucket/archive/{NEXT}"}
    assert bucket.uploads == 3
    assert noon("bucket/archive", filesystem=bucket.filesystem()) == set(expected_rows(lag(NOON_MS), late))
    again = archived_batches("bucket/archive", CONSUMER_LAG, NOON_MS, LATER_MS, filesystem=bucket.filesystem())
    assert [batch.at_ms for batch in again] == [NOON_MS, NOON_MS + 60_000]
    assert list(tmp_path.iterdir()) == [], "what is spooled has no name"


def test_a_failed_upload_leaves_the_old_object_and_is_repeated(sink: Sinks, tmp_path: Path) -> None:
    bucket = ObjectStore()
    archive = sink("bucket/archive", filesystem=bucket.filesystem(), spool_folder=tmp_path)
    late = lag(NOON_MS + 60_000)
    for number, batch in enumerate((lag(NOON_MS), lag(LATER_MS), late), 1):
        archive.write(number, [batch])
    before = dict(bucket.objects)
    bucket.refuse = OSError("AWS Error NETWORK_CONNECTION during UploadPart operation: curlCode: 28")
    for _ in range(3):
        with pytest.raises(SinkError, match=r'archive bucket/archive/consumer_lag.*"AWS Error NETWORK_CONN') as caught:
            archive.write(4, [lag(LATER_MS)])
        assert caught.value.retriable
    assert bucket.objects == before
    assert archive.settled(3) == 2
    bucket.refuse = None
    archive.write(4, [lag(LATER_MS)])
    assert archive.settled(4) == 3
    assert noon("bucket/archive", filesystem=bucket.filesystem()) == set(expected_rows(lag(NOON_MS), late))


@pytest.mark.parametrize("damage", [b"", b"PAR1 not parquet PAR1", None])
def test_a_damaged_file_is_set_aside_and_blocks_nothing(
    sink: Sinks, tmp_path: Path, damage: bytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    archive = sink(tmp_path)
    archive.write(1, [lag(NOON_MS)])
    archive.write(2, [lag(LATER_MS)])
    content = (tmp_path / FILE).read_bytes()
    spoilt = bytearray(content)
    spoilt[4 : len(content) // 3] = os.urandom(len(content) // 3 - 4)  # the pages; the footer still reads well
    (tmp_path / FILE).write_bytes(bytes(spoilt) if damage is None else damage)
    archive.write(3, [lag(NOON_MS + 60_000)])
    archive.write(4, [lag(LATER_MS)])
    assert noon(tmp_path) == set(expected_rows(lag(NOON_MS + 60_000)))
    assert (tmp_path / FILE).with_name("_12.parquet.unreadable").exists()
    assert caplog.text.count("archive file unreadable, set aside") == 1


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.ENOSPC, "the disk is full"),
        (errno.EROFS, "the disk is read-only"),
        (errno.EACCES, "no permission to write there"),
        (errno.ENOENT, "a folder no longer exists"),
    ],
)
def test_errors_are_reported_as_readable_text(number: int, words: str) -> None:
    assert explain(OSError(number, "foreign")) == words


def test_an_error_without_a_number_is_quoted() -> None:
    assert explain(OSError("first line\nsecond line")) == '"first line"'
    assert explain(OSError()) == '"OSError"'


def test_a_volume_that_is_not_mounted_any_more_is_waited_for(tmp_path: Path) -> None:
    store = ArchiveStore(str(tmp_path))
    store.ready()
    store._mount = tmp_path  # as if it had been a volume of its own
    with pytest.raises(SinkError, match=r".* is no longer mounted; mount it"):
        store.ready()

"""The class data sharing archive that makes later Kafka JVMs start sooner."""

from __future__ import annotations

from pathlib import Path

import pytest

from lagwatch.demo.cds_archive import CdsArchive


@pytest.fixture
def jars(tmp_path: Path) -> Path:
    """An empty folder in the place of one with jars."""
    folder = tmp_path / "4.3.1"
    folder.mkdir()
    return folder


def test_without_an_archive_a_jvm_gets_no_option(jars: Path, tmp_path: Path) -> None:
    assert CdsArchive(jars, _java(tmp_path, "17.0.1")).options_to_use() == []


def test_what_one_cluster_leaves_the_next_one_uses(jars: Path, tmp_path: Path) -> None:
    java, draft = _java(tmp_path, "17.0.1"), tmp_path / "draft"
    draft.write_bytes(b"classes")

    CdsArchive(jars, java).adopt(draft)

    kept = CdsArchive(jars, java)
    assert f"-XX:SharedArchiveFile={kept.file}" in kept.options_to_use()
    assert kept.file.read_bytes() == b"classes"


def test_a_node_that_was_killed_leaves_none(jars: Path, tmp_path: Path) -> None:
    java = _java(tmp_path, "17.0.1")

    CdsArchive(jars, java).adopt(tmp_path / "never written")

    assert not CdsArchive(jars, java).exists


def test_another_java_does_not_use_it(jars: Path, tmp_path: Path) -> None:
    draft = tmp_path / "draft"
    draft.touch()

    CdsArchive(jars, _java(tmp_path, "17.0.1")).adopt(draft)

    assert not CdsArchive(jars, _java(tmp_path, "21.0.2")).exists


def _java(folder: Path, version: str) -> Path:
    java = folder / f"java-{version}"
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    java.chmod(0o755)
    return java

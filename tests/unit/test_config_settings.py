"""What a valid configuration means: values, defaults, variables, secrets from files."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from lagwatch.catalogue import BUILT_IN
from lagwatch.config import ClusterSettings, Settings, load_settings, parse_settings
from lagwatch.config.reference import effective, render_yaml
from lagwatch.config.units import format_duration, format_size, parse_duration, parse_size
from lagwatch.name_filter import NameFilter

GOOD = "clusters:\n  - name: east\n    bootstrap: [kafka1:9092]\n"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("500ms", 0.5), ("30s", 30), ("5m", 300), ("1h30m", 5400), ("2d", 172800), ("1w1d", 691200), ("0s", 0)],
)
def test_a_duration_is_written_like_prometheus_writes_it(text: str, seconds: float) -> None:
    assert parse_duration(text).total_seconds() == seconds


@pytest.mark.parametrize(
    "text", ["", "s", "5", "5 s", "-5s", "1.5h", "30m1h", "5s5s", "5S", "5min", "\u0665s", "9" * 10 + "s"]
)
def test_other_texts_are_not_durations(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a duration|without a unit"):
        parse_duration(text)


@given(st.timedeltas(min_value=timedelta(), max_value=timedelta(days=3000)))
def test_a_written_duration_reads_back(value: timedelta) -> None:
    rounded = round(value / timedelta(milliseconds=1)) * timedelta(milliseconds=1)
    if rounded < timedelta(days=10):  # longer ones have more than nine digits of milliseconds
        assert parse_duration(format_duration(value)) == rounded


@given(st.integers(min_value=0, max_value=10**15 - 1))
def test_a_written_size_reads_back(value: int) -> None:
    assert parse_size(format_size(value)) == value


@pytest.mark.parametrize("text", ["", "5", "2GB", "2G", "1.5GiB", "-1B", "2 GiB", "2gib"])
def test_other_texts_are_not_sizes(text: str) -> None:
    with pytest.raises(ValueError, match="is not a size"):
        parse_size(text)


def test_scalars_stay_what_they_look_like() -> None:
    text = (
        "clusters: [{name: on, bootstrap: 'k:1', topics: {include: [no, 12:30, 0123, 1_000, 0x1F, .inf, 2024-01-01]}}]"
    )
    cluster = parse_settings(text, "f").clusters[0]
    assert cluster.name == "on"
    names = [pattern.pattern for pattern in cluster.topics.include]
    assert names == ["no", "12:30", "0123", "1_000", "0x1F", ".inf", "2024-01-01"]


def test_a_section_without_keys_means_its_defaults() -> None:
    settings = parse_settings("agent: {name: a}\njournal:\n" + GOOD + "    security:\n    topics: {exclude: }\n", "f")
    assert settings.journal.history == timedelta(hours=24)
    assert settings.clusters[0].security.protocol == "PLAINTEXT"


def test_an_unknown_key_without_a_value_is_an_error() -> None:
    with pytest.raises(Exception, match="unknown key"):
        parse_settings("jurnal:\n" + GOOD, "f")


def test_brokers_may_be_one_text() -> None:
    settings = parse_settings("clusters: [{name: a, bootstrap: 'a:1, b:2,[::1]:3'}]", "f")
    assert settings.clusters[0].bootstrap == ("a:1", "b:2", "[::1]:3")


def test_clusters_can_share_settings_by_anchors_and_merge_keys() -> None:
    text = """\
clusters:
  - &base
    name: east
    bootstrap: a:1
    intervals: &often {kafka: 20s, quorum: 30s}
  - <<: *base
    name: west
    intervals: {<<: *often, kafka: 40s}
"""
    west = parse_settings(text, "f").cluster("west")
    assert west.bootstrap == ("a:1",)
    assert (west.intervals.kafka, west.intervals.quorum) == (timedelta(seconds=40), timedelta(seconds=30))


def test_a_selection_matches_whole_names_and_exclude_wins() -> None:
    lines = "    groups: {include: ['orders.*', audit], exclude: ['.*-test']}\n"
    groups = parse_settings(GOOD + lines, "f").clusters[0].groups
    watched = NameFilter([p.pattern for p in groups.include], [p.pattern for p in groups.exclude])
    names = ("orders", "orders-eu", "my-orders", "audit", "audit2", "orders-test")
    assert [name for name in names if watched(name)] == ["orders", "orders-eu", "audit"]


def test_variables_are_filled_in_anywhere_and_can_be_escaped() -> None:
    text = """\
agent: {name: "ops-${N}"}
clusters:
  - name: "${C}"
    bootstrap: ${BROKERS}
    deadline: ${D}
    topics: {include: ['$${x}', 'a$$', '$b']}
    security: {protocol: SSL, tls: {check_hostname: "${FLAG}"}}
"""
    env = {"N": "1", "C": "east", "BROKERS": "a:1,b:2", "D": "7s", "FLAG": "false"}
    settings = parse_settings(text, "f", env=env)
    cluster = settings.clusters[0]
    assert (settings.agent.name, cluster.name, cluster.bootstrap) == ("ops-1", "east", ("a:1", "b:2"))
    assert cluster.deadline == timedelta(seconds=7)
    assert [pattern.pattern for pattern in cluster.topics.include] == ["${x}", "a$$", "$b"]
    assert cluster.security.tls is not None
    assert cluster.security.tls.check_hostname is False


def test_what_a_variable_holds_is_not_read_as_yaml_or_as_another_variable() -> None:
    settings = parse_settings(GOOD + "    topics: {include: ['${A}']}\n", "f", env={"A": "${B}: [x]", "B": "no"})
    assert settings.clusters[0].topics.include[0].pattern == "${B}: [x]"


@pytest.mark.parametrize(
    ("content", "secret"),
    [("s", "s"), ("s\n", "s"), ("s\r\n", "s"), ("s\n\n", "s\n"), (" s ", " s "), ("pässword", "pässword")],
)
def test_a_secret_file_loses_one_line_end(content: str, secret: str, tmp_path: Path) -> None:
    (tmp_path / "pw").write_bytes(content.encode())
    path = tmp_path / "lagwatch.yml"
    path.write_text(
        GOOD + "    security: {protocol: SASL_SSL, sasl: {mechanism: PLAIN, username: u, password_file: pw}}\n"
    )
    sasl = load_settings(path).clusters[0].security.sasl
    assert sasl is not None
    assert sasl.reveal_password() == secret


@pytest.mark.parametrize(
    ("content", "why"),
    [(b"", "is empty"), (b"\n", "is empty"), (b"\xff\xfe", "is not UTF-8"), (b"x" * 70_000, "is too large")],
)
def test_a_secret_file_must_hold_a_secret(content: bytes, why: str, tmp_path: Path) -> None:
    (tmp_path / "pw").write_bytes(content)
    lines = "    security: {protocol: SASL_SSL, sasl: {mechanism: PLAIN, username: u, password_file: pw}}\n"
    with pytest.raises(Exception, match=f'password_file: "pw" {why}'):
        parse_settings(GOOD + lines, "f", folder=tmp_path)


def test_relative_paths_start_where_the_file_is(tmp_path: Path) -> None:
    path = tmp_path / "lagwatch.yml"
    path.write_text(GOOD)
    assert load_settings(path).journal.path == tmp_path / "lagwatch-data" / "journal.db"


def test_settings_are_frozen_and_found_by_name() -> None:
    settings = parse_settings(GOOD, "f")
    with pytest.raises(ValidationError):
        settings.agent.name = "other"  # type: ignore[misc]
    assert settings.cluster("east") is settings.clusters[0]
    with pytest.raises(KeyError, match=r"no cluster \"west\" in the configuration \(there are: east\)"):
        settings.cluster("west")


def test_settings_can_be_made_in_code() -> None:
    cluster = ClusterSettings.model_validate(
        {"name": "demo", "bootstrap": ["localhost:1"], "deadline": timedelta(seconds=3)}
    )
    assert Settings(clusters=(cluster,)).cluster("demo").deadline == timedelta(seconds=3)


def test_what_show_prints_loads_again() -> None:
    text = GOOD + "    topics: {include: ['a$${b}', 'no', '12:30', '5', 'é\"''x']}\n    deadline: 1500ms\n"
    settings = parse_settings(text, "f")
    again = parse_settings(render_yaml(settings), "shown")
    assert again == settings
    assert effective(again)["clusters"][0]["deadline"] == "1500ms"


def test_every_table_sent_to_influxdb_has_its_key_with_the_defaults_of_the_catalogue() -> None:
    influxdb = parse_settings(
        "influxdb: {url: 'http://i:8086', org: o, bucket: b, token: '${T}'}\n" + GOOD, "f", env={"T": "x"}
    ).influxdb
    assert influxdb is not None
    found = {name: (table.every.total_seconds(), table.rows) for name, table in influxdb.tables}
    assert found == {table.name: (table.influx.every_seconds, table.influx.rows) for table in BUILT_IN if table.influx}
    assert (found["consumer_lag"], found["commit"], found["event"]) == ((30, "all"), (0, "off"), (0, "all"))
    assert found.keys() == {table.name for table in BUILT_IN} - {"consumer_topic", "rejected"}

"""Shipping to a real InfluxDB: names, outages, kills, rejected points, and the whole agent."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from lagwatch.batch import make_batch
from lagwatch.catalogue import BUILT_IN, CLUSTER, CONSUMER_GROUP, TOPIC
from lagwatch.clock import SystemClock
from lagwatch.demo.influxd import Influxd
from lagwatch.demo.kafka_cluster import KafkaCluster
from lagwatch.demo.tls_files import make_tls_files
from lagwatch.errors import SinkError
from lagwatch.journal import Journal
from lagwatch.shipping import Shipper, ShippingRate
from lagwatch.sinks.archive.sink import ArchiveSink
from lagwatch.sinks.influx.sink import InfluxSink
from tests.harness.agents import rows_of, running_agent, write_config
from tests.harness.cursors import needs
from tests.harness.influx import options_for, per_series, rows, running_influxd
from tests.harness.ports import closed_port
from tests.harness.proxies import forwarding_proxy
from tests.harness.shipping_kills import check_everything_is_there_once, fill_while_down, ship_under_fire
from tests.harness.waiting import wait_until

NOW_MS = SystemClock().wall_ms()
HOUR_AGO_MS = NOW_MS - 3_600_000
PACE = ShippingRate(first_wait_seconds=0.05, longest_wait_seconds=0.2, idle_seconds=0.05)


@pytest.fixture(scope="module")
def shared() -> Iterator[Influxd]:
    with running_influxd() as server:
        yield server


@pytest.fixture
def influx(shared: Influxd, request: pytest.FixtureRequest) -> Influxd:
    """The shared server with a bucket of the test's own."""
    shared.bucket = f"test-{abs(hash(request.node.name))}"
    orgs = shared.api_request("/api/v2/orgs")["orgs"]
    shared.api_request("/api/v2/buckets", {"name": shared.bucket, "orgID": orgs[0]["id"], "retentionRules": []})
    return shared


HOSTILE = [
    "with space",
    "a,b=c",
    'qu"ote',
    "back\\slash",
    "back\\,comma",
    "emoji 😀",
    "x" * 200,
    "tab\tbed",
    "new\nline",
    "end\\",
    "␛n",
]
ARRIVE_AS = {"new\nline": "new␛nline", "end\\": "end␛/", "␛n": "␛␛n"}


def test_hostile_names_arrive_as_they_are_and_forge_no_other_series(influx: Influxd) -> None:
    batch = make_batch(CONSUMER_GROUP, "ea st,=", NOW_MS, {"group": HOSTILE, "total_lag": list(range(len(HOSTILE)))})
    InfluxSink(options_for(influx)).write(1, [batch])

    found = per_series(influx, "consumer_group", "total_lag", "sum")
    assert found == {("ea st,=", ARRIVE_AS.get(name, name)): lag for lag, name in enumerate(HOSTILE)}


def test_a_backlog_is_shipped_while_polls_go_on_and_both_are_killed_ten_times(influx: Influxd, tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    fill_while_down(path, series=1000, polls=150)
    ship_under_fire(influx, path, series=1000, kills=10, random=random.Random(3))
    assert check_everything_is_there_once(influx, path) > 150_000


def test_connection_refused_is_reported_and_retriable() -> None:
    with running_influxd() as server:
        options = options_for(server)
        server.kill()
        sink = InfluxSink(options)
        with pytest.raises(SinkError, match="connection refused") as caught:
            sink.write(1, [make_batch(CLUSTER, "east", NOW_MS, {"brokers": [3]})])
        assert caught.value.retriable


@pytest.mark.parametrize(
    ("change", "words"),
    [({"token": "wrong"}, "the token is not accepted"), ({"bucket": "nowhere"}, 'bucket "nowhere"')],
)
def test_a_wrong_token_or_bucket_is_reported_and_the_cursor_waits(
    influx: Influxd, tmp_path: Path, change: dict[str, str], words: str
) -> None:
    options: Any = options_for(influx)
    wrong = type(options)(
        **{name: change.get(name, getattr(options, name)) for name in ("url", "org", "bucket", "token")}
    )
    with Journal(tmp_path / "journal.db") as journal:
        shipper = Shipper(journal, InfluxSink(wrong), SystemClock(), PACE)
        journal.append([make_batch(CLUSTER, "east", NOW_MS, {"brokers": [3]})])
        shipper.step()
        assert shipper.fault is not None
        assert words in shipper.fault.reason
        assert "wrong" not in shipper.fault.reason
        assert needs(journal.cursor("influxdb"), 1)


def test_a_revoked_token_loses_nothing_once_it_is_valid_again(influx: Influxd, tmp_path: Path) -> None:
    org = influx.api_request("/api/v2/orgs")["orgs"][0]["id"]
    right = {"action": "write", "resource": {"type": "buckets", "orgID": org}}
    made = influx.api_request("/api/v2/authorizations", {"orgID": org, "permissions": [right]})
    options: Any = options_for(influx)
    sink = InfluxSink(type(options)(options.url, options.org, options.bucket, made["token"]))
    with Journal(tmp_path / "journal.db") as journal:
        shipper = Shipper(journal, sink, SystemClock(), PACE)

        def poll(number: int) -> None:
            journal.append([make_batch(CLUSTER, "east", NOW_MS + number, {"brokers": [number]})])
            shipper.step()

        poll(1)
        influx.api_request(f"/api/v2/authorizations/{made['id']}", {"status": "inactive"}, method="PATCH")
        poll(2)
        assert shipper.fault is not None
        influx.api_request(f"/api/v2/authorizations/{made['id']}", {"status": "active"}, method="PATCH")
        poll(3)
        wait_until(lambda: shipper.step() == PACE.idle_seconds, 10)
    assert per_series(influx, "cluster", "brokers", "count") == {("east",): 3}


def test_a_field_of_another_type_is_named_and_set_aside_alone(influx: Influxd, tmp_path: Path) -> None:
    line = f'topic,cluster=east,topic=bad partitions="three" {NOW_MS}'.encode()
    influx_write(influx, line)
    with Journal(tmp_path / "journal.db") as journal:
        shipper = Shipper(journal, InfluxSink(options_for(influx)), SystemClock(), PACE)
        columns: dict[str, Any] = {"topic": ["a", "b"], "partitions": [1, 2], "topic_id": ["x", "y"]}
        journal.append(
            [make_batch(TOPIC, "east", NOW_MS, columns), make_batch(CLUSTER, "east", NOW_MS, {"brokers": [3]})]
        )
        wait_until(lambda: shipper.step() == PACE.idle_seconds, 10)
        assert shipper.fault is None
        rejected = [row for poll in journal.tail() for row in rows_of(poll, "rejected")]
    listed = lagwatch("journal", "rejected", str(tmp_path / "journal.db"), "--json")
    assert (listed.returncode, len(json.loads(listed.stdout))) == (1, 2)
    reason = f"field partitions of topic is string in bucket {influx.bucket}, but lagwatch writes integer"
    assert {row["reason"] for row in rejected} == {reason}
    assert len(rejected) == 2
    assert per_series(influx, "cluster", "brokers", "sum") == {("east",): 3}


def influx_write(server: Influxd, body: bytes) -> None:
    InfluxSink(options_for(server))._post(body)


def test_tls_is_verified_against_the_configured_ca(tmp_path: Path) -> None:
    tls = make_tls_files(tmp_path / "tls", "lagwatch")
    batch = make_batch(CLUSTER, "east", NOW_MS, {"brokers": [3]})
    with running_influxd(tls) as server:
        InfluxSink(options_for(server, ca_file=str(tls.ca))).write(1, [batch])
        for distrusting in (options_for(server, ca_file=str(tls.wrong_ca)), options_for(server)):
            with pytest.raises(SinkError, match="its certificate is not trusted") as caught:
                InfluxSink(distrusting).write(1, [batch])
            assert caught.value.retriable
        assert per_series(server, "cluster", "brokers", "sum") == {("east",): 3}


def test_a_configured_proxy_is_used(influx: Influxd) -> None:
    with forwarding_proxy() as (proxy, seen):
        sink = InfluxSink(options_for(influx, proxy=proxy))
        sink.write(1, [make_batch(CLUSTER, "east", NOW_MS, {"brokers": [3]})])
        sink.close()
    assert seen == [influx.url]
    assert per_series(influx, "cluster", "brokers", "sum") == {("east",): 3}


def test_the_bucket_has_the_configured_retention(influx: Influxd) -> None:
    sink = InfluxSink(options_for(influx, bucket_retention_seconds=86_400))
    sink.write(1, [make_batch(CLUSTER, "east", NOW_MS, {"brokers": [3]})])
    found = influx.api_request(f"/api/v2/buckets?name={influx.bucket}")["buckets"][0]
    assert found["retentionRules"][0]["everySeconds"] == 86_400


def test_the_agent_ships_what_it_polls_and_reports_failures(
    kafka: KafkaCluster, influx: Influxd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INFLUX_TOKEN", influx.token)
    kafka.create_topic("shipped", partitions=2, replication=1)
    kafka.produce("shipped", {0: 12})
    kafka.commit("shipped", {("shipped", 0): 2})
    config = write_config(tmp_path, kafka.bootstrap)
    section = (
        f"influxdb:\n  url: {influx.url}\n  org: {influx.org}\n  bucket: {influx.bucket}\n  token: ${{INFLUX_TOKEN}}\n"
        "  tags: {site: lab}\n  tables: {consumer_lag: {every: 1s}}\n"
    )
    config.write_text(section + config.read_text())
    wanted = 'r.group == "shipped" and r._field == "lag"'
    flux = f'from(bucket: "{influx.bucket}") |> range(start: -5m) |> filter(fn: (r) => {wanted})'
    with running_agent(config) as agent:
        wait_until(lambda: bool(rows(influx, flux)), 40, lambda: str(agent.messages()[-5:]))
        assert {(row["_value"], row["site"]) for row in rows(influx, flux)} == {("10", "lab")}
        assert agent.stop() == 0
    assert influx.token not in agent.log_file.read_text()

    config.write_text(config.read_text().replace(influx.url, f"http://127.0.0.1:{closed_port()}"))
    with running_agent(config) as agent:
        agent.wait_for("source", lambda found: any(r["source"] == "influxdb" and not r["up"] for r in found))
        assert any("connection refused" in m and "sink failed" in m for m in agent.messages())
        wait_until(lambda: len(agent.polls()) > 3, 20, "polls must go on")
        shown = lagwatch("lag", "--journal", str(tmp_path / "journal.db"), "--group", "shipped", "--json")
    assert json.loads(shown.stdout)["cluster"] == "east", "a sink that fails is no cluster"


def test_a_single_cycle_is_shipped_before_the_command_ends(
    kafka: KafkaCluster, influx: Influxd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INFLUX_TOKEN", influx.token)
    config = write_config(tmp_path, kafka.bootstrap)
    section = (
        f"influxdb: {{url: '{influx.url}', org: {influx.org}, bucket: {influx.bucket}, token: '${{INFLUX_TOKEN}}'}}\n"
    )
    config.write_text(section + config.read_text())
    done = lagwatch("run", str(config), "--once")
    assert done.returncode == 0, done.stderr
    assert per_series(influx, "cluster", "brokers", "sum") == {("east",): 3}


def test_a_past_span_is_sent_again_from_the_journal(
    influx: Influxd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INFLUX_TOKEN", influx.token)
    config = write_config(tmp_path, "127.0.0.1:1")
    section = (
        f"influxdb: {{url: '{influx.url}', org: {influx.org}, bucket: {influx.bucket}, token: '${{INFLUX_TOKEN}}'}}\n"
    )
    config.write_text(section + config.read_text())
    with Journal(tmp_path / "journal.db") as journal:
        for minute in range(10):
            journal.append([make_batch(CLUSTER, "east", HOUR_AGO_MS + minute * 60_000, {"brokers": [minute]})])

    def at(minute: int) -> str:
        return datetime.fromtimestamp(HOUR_AGO_MS / 1000 + minute * 60, UTC).isoformat()

    for _ in range(2):
        done = lagwatch("ship", str(config), "--from", at(3), "--to", at(6))
        assert done.returncode == 0, done.stderr
    assert per_series(influx, "cluster", "brokers", "sum") == {("east",): 3 + 4 + 5}
    early = lagwatch("ship", str(config), "--from", at(-60))
    assert early.returncode == 2
    assert "the journal begins at" in early.stderr


def test_a_past_span_is_sent_again_from_the_archive(
    influx: Influxd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INFLUX_TOKEN", influx.token)
    archive = tmp_path / "archive"
    archive.mkdir()
    day_ago = HOUR_AGO_MS - 23 * 3_600_000
    with Journal(tmp_path / "old.db") as journal:
        sink = ArchiveSink(str(archive), retention_days=30, catalogue=BUILT_IN, clock=SystemClock())
        shipper = Shipper(journal, sink, SystemClock(), PACE)
        for number in range(40):  # ten minutes apart: the last hour stays open
            columns = {"brokers": [number]}
            journal.append([make_batch(CLUSTER, "east", day_ago + number * 600_000, columns)])
        wait_until(lambda: shipper.step() == PACE.idle_seconds, 20)
        assert 0 < journal.cursor("archive").live < 40, "only finished hours are settled"
        sink.close()
    config = write_config(tmp_path, "127.0.0.1:1")
    section = (
        f"influxdb: {{url: '{influx.url}', org: {influx.org}, bucket: {influx.bucket}, token: '${{INFLUX_TOKEN}}'}}\n"
    )
    config.write_text(section + f"archive: {{url: '{archive}'}}\n" + config.read_text())
    with Journal(tmp_path / "journal.db") as journal:
        journal.append([make_batch(CLUSTER, "east", NOW_MS, {"brokers": [99]})])

    def at(number: int) -> str:
        return datetime.fromtimestamp(day_ago / 1000 + number * 600, UTC).isoformat()

    done = lagwatch("ship", str(config), "--from", at(5), "--to", at(8))
    assert done.returncode == 0, done.stderr
    assert per_series(influx, "cluster", "brokers", "sum") == {("east",): 5 + 6 + 7}


def lagwatch(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "lagwatch.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)

"""Every key of the configuration: after a reload that changes it, the agent is as if it had started with it.

A key that needs a restart is refused by name. A key that is added needs an entry in `CHANGES`.
"""

from __future__ import annotations

import copy
import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_origin

import pytest
import yaml

from lagwatch.catalogue import BUILT_IN
from lagwatch.cli import run_command
from lagwatch.clock import SettableClock
from lagwatch.config import Settings, load_settings
from lagwatch.config.section import Section, section_in
from lagwatch.runtime import agent as agent_module
from lagwatch.runtime.agent import NEEDS_RESTART, Agent
from lagwatch.runtime.logs import set_up_logging
from lagwatch.shipping import Shipping
from tests.harness.fingerprints import fingerprint
from tests.harness.scripted_agents import PausedScheduler

BASE: dict[str, Any] = {
    "agent": {"name": "one"},
    "journal": {"path": "journal.db"},
    "influxdb": {"url": "http://127.0.0.1:1", "org": "o", "bucket": "b", "token_file": "a"},
    "archive": {"url": "archive"},
    "jmx": {
        "beans": [
            {"bean": "d:user=*,client=*", "attribute": "x", "field": "f", "table": "own", "labels": {"user": "user"}}
        ]
    },
    "clusters": [
        {
            "name": "east",
            "bootstrap": ["127.0.0.1:1"],
            "commits": "poll",
            "jmx": {"port": "9999"},
            "verdicts": {"overrides": [{"groups": "g"}]},
        }
    ],
}
_SECURITY = "clusters[].security"
_TLS = {f"{_SECURITY}.protocol": "SSL", f"{_SECURITY}.tls": {"cert_file": "a", "key_file": "a"}}
_PASSWORD = {"mechanism": "PLAIN", "username": "u", "password_file": "a"}
_OAUTH = {"token_url": "http://127.0.0.1/a", "client_id": "c", "client_secret_file": "a"}
_KERBEROS = {"mechanism": "GSSAPI", "kerberos": {"service_name": "kafka"}}


def _sasl(settings: dict[str, Any]) -> dict[str, Any]:
    return {f"{_SECURITY}.protocol": "SASL_PLAINTEXT", f"{_SECURITY}.sasl": settings}


def _bearer(**settings: Any) -> dict[str, Any]:
    return _sasl({"mechanism": "OAUTHBEARER", **settings})


def _login(**settings: Any) -> dict[str, Any]:
    return {"clusters[].jmx": {"port": "9999", "username": "u", **settings}}


@dataclass(frozen=True)
class Change:
    """The other value of a key (None: the key is left out), and what else both files say for the key to count."""

    value: Any
    both: dict[str, Any] = field(default_factory=dict)


def _all(prefix: str, changes: dict[str, Any], both: dict[str, Any] | None = None) -> dict[str, Change]:
    return {f"{prefix}.{key}": Change(value, both or {}) for key, value in changes.items()}


CHANGES: dict[str, Change] = {
    "agent.name": Change("two"),
    "agent.log_level": Change("warning"),
    **_all("journal", {"path": "b.db", "max_size": "1GiB", "history": "2h", "checkpoint_every": "1m"}),
    "journal.partition_rows_every": Change("10s"),
    "influxdb": Change(None),
    **_all("influxdb", {"url": "http://127.0.0.1:2", "org": "p", "bucket": "c", "token_file": "b", "ca_file": "a"}),
    "influxdb.token": Change("${B}", {"influxdb.token_file": None, "influxdb.token": "${A}"}),
    **_all("influxdb", {"verify_tls": False, "proxy": "http://127.0.0.1:3", "timeout": "7s", "tags": {"a": "b"}}),
    **_all("influxdb", {"max_series": 5, "backlog_rows_a_second": 200, "bucket_retention": "90d"}),
    **{f"influxdb.tables.{table.name}.every": Change("77s") for table in BUILT_IN if table.influx},
    **{
        f"influxdb.tables.{table.name}.rows": Change(next(one for one in defaults.choices if one != defaults.rows))
        for table in BUILT_IN
        if (defaults := table.influx)
    },
    "archive": Change(None),
    **_all("archive", {"url": "elsewhere", "retention": "30d", "partition_rows_every": "10s"}),
    **_all("jmx", {"java": "/opt/other", "heap": "64MiB", "deadline": "3s", "ca_file": "a", "trust_store": "a"}),
    **_all("jmx", {"trust_store_password_file": "b", "trust_store_password": "${B}"}, {"jmx.trust_store": "a"}),
    "jmx.key_store": Change("a"),
    **_all("jmx", {"key_store_password_file": "b", "key_store_password": "${B}"}, {"jmx.key_store": "a"}),
    "jmx.beans": Change([]),
    **_all("jmx.beans[]", {"bean": "e:user=*", "attribute": "y", "field": "g", "how": "sum", "unit": "bytes/s"}),
    **_all("jmx.beans[]", {"meaning": "of mine", "table": "mine", "labels": {"client": "client"}}),
    "clusters": Change([*BASE["clusters"], {"name": "west", "bootstrap": ["127.0.0.1:1"]}]),
    **_all("clusters[]", {"name": "north", "bootstrap": ["127.0.0.1:2"], "commits": "topic", "deadline": "3s"}),
    "clusters[].commits_look_back": Change("1m", {"clusters[].commits": "topic"}),
    "clusters[].receive_max": Change("2MiB"),
    **_all("clusters[]", {f"{what}.{how}": ["x.*"] for what in ("topics", "groups") for how in ("include", "exclude")}),
    **_all("clusters[].intervals", {"kafka": "20s", "configs": "1m", "logdirs": "2m", "quorum": "7s", "jmx": "40s"}),
    **_all("clusters[].verdicts", {"mode": "burrow", "allowed_lag": 5, "minimum_complete": 0.5, "slots": 20}),
    **_all("clusters[].verdicts", {"floor": "2m", "disable": ["trend"], "min_distance": "1s", "expire": "1d"}),
    "clusters[].verdicts.overrides": Change([]),
    **_all("clusters[].verdicts.overrides[]", {"groups": "h", "mode": "burrow", "allowed_lag": 5, "floor": "2m"}),
    **_all("clusters[].verdicts.overrides[]", {"minimum_complete": 0.5, "disable": ["trend"]}),
    "clusters[].jmx": Change(None),
    **_all("clusters[].jmx", {"via": "jolokia", "port": "9998", "brokers": {"1": "a:1"}, "controllers": {"9": "c:1"}}),
    "clusters[].jmx.username": Change("v", _login(password_file="a")),
    "clusters[].jmx.password_file": Change("b", _login(password_file="a")),
    "clusters[].jmx.password": Change("${B}", _login(password="${A}")),
    **_all("clusters[].jmx", {"registry_tls": True, "path": "/other", "topics": True}),
    f"{_SECURITY}.protocol": Change("SSL"),
    f"{_SECURITY}.tls": Change({"ca_file": "a"}, {f"{_SECURITY}.protocol": "SSL"}),
    **_all(f"{_SECURITY}.tls", {"ca_file": "a", "cert_file": "b", "key_file": "b", "crl_file": "a"}, _TLS),
    **_all(f"{_SECURITY}.tls", {"key_password_file": "a", "key_password": "${A}", "check_hostname": False}, _TLS),
    f"{_SECURITY}.sasl": Change(_PASSWORD | {"username": "v"}, _sasl(_PASSWORD)),
    **_all(
        f"{_SECURITY}.sasl", {"mechanism": "SCRAM-SHA-512", "username": "v", "password_file": "b"}, _sasl(_PASSWORD)
    ),
    f"{_SECURITY}.sasl.password": Change("${B}", _sasl({"mechanism": "PLAIN", "username": "u", "password": "${A}"})),
    f"{_SECURITY}.sasl.token_file": Change("b", _bearer(token_file="a")),
    f"{_SECURITY}.sasl.token": Change("${B}", _bearer(token="${A}")),
    f"{_SECURITY}.sasl.oauth": Change(_OAUTH | {"client_id": "d"}, _bearer(oauth=_OAUTH)),
    **_all(
        f"{_SECURITY}.sasl.oauth",
        {"token_url": "http://127.0.0.1/b", "client_id": "d", "client_secret_file": "b", "scope": "s"},
        _bearer(oauth=_OAUTH),
    ),
    f"{_SECURITY}.sasl.oauth.client_secret": Change(
        "${B}", _bearer(oauth={"token_url": "http://127.0.0.1/a", "client_id": "c", "client_secret": "${A}"})
    ),
    f"{_SECURITY}.sasl.kerberos": Change({"service_name": "other"}, _sasl(_KERBEROS)),
    **_all(f"{_SECURITY}.sasl.kerberos", {"service_name": "other", "domain_name": "d"}, _sasl(_KERBEROS)),
}


def _keys(section: type[Section], prefix: str = "") -> Iterator[str]:
    """Every key, and every section that may be left out or repeated."""
    for name, about in section.model_fields.items():
        inner, path = section_in(about.annotation), f"{prefix}{name}"
        is_list = get_origin(about.annotation) is tuple
        if inner is None or is_list or about.default is None:
            yield path
        if inner is not None:
            yield from _keys(inner, f"{path}[]." if is_list else f"{path}.")


def test_every_key_has_a_change() -> None:
    assert sorted(CHANGES) == sorted(_keys(Settings))


def _written(path: Path, changes: dict[str, Any]) -> Path:
    """The base with these changes, as a file."""
    root = copy.deepcopy(BASE)
    for key, value in changes.items():
        *sections, last = re.sub(r"\[\]", "", key).split(".")
        at: Any = root
        for name in sections:
            at = at.setdefault(name, {})
            at = at[0] if isinstance(at, list) else at
        at.pop(last, None)
        if value is not None:
            at[last] = copy.deepcopy(value)
    path.write_text(yaml.safe_dump(root))
    return path


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with the files and variables that the settings name; nothing is polled or shipped."""
    for name in ("a", "b"):
        (tmp_path / name).write_text(name)
        monkeypatch.setenv(name.upper(), name)
    monkeypatch.setattr(agent_module, "BackgroundScheduler", PausedScheduler)
    monkeypatch.setattr(Shipping, "start", Shipping.prepare)
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield tmp_path
    root.handlers[:] = handlers
    root.setLevel(level)


def _started(config: Path) -> Agent:
    settings = load_settings(config)
    set_up_logging(settings.agent.log_level)
    agent = Agent(settings, SettableClock())
    agent.start()
    return agent


def _stop(agent: Agent, folder: Path) -> None:
    agent.stop()
    for file in folder.glob("journal.db*"):
        file.unlink()


@pytest.mark.parametrize("key", CHANGES)
def test_a_reload_applies_the_key_as_a_start_does_or_names_it(
    key: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change = CHANGES[key]
    before = _written(folder / "before.yml", change.both)
    after = _written(folder / "after.yml", {**change.both, key: change.value})
    agent = _started(before)
    unchanged = fingerprint(agent)
    run_command._reload(agent, after)
    reloaded = fingerprint(agent)
    _stop(agent, folder)
    if key in NEEDS_RESTART:
        assert f"configuration not reloaded: {key}: " in capsys.readouterr().err
        assert reloaded == unchanged
        return
    agent = _started(after)
    started = fingerprint(agent)
    _stop(agent, folder)
    assert reloaded == started
    assert started != unchanged, "the fingerprint does not show this key, so the test shows nothing"

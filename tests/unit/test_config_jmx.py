"""JMX settings: which are refused, and the position in the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from lagwatch.assemble.catalogue import catalogue_of
from lagwatch.assemble.jmx import gateway_options, listed_endpoints, user_bean
from lagwatch.config import Settings, parse_settings
from lagwatch.errors import ConfigError

CLUSTER = "clusters: [{{name: east, bootstrap: 'k:9092', jmx: {{{jmx}}}}}]"

OWN = "{bean: 'd:a=*', attribute: a, table: t,"


def settings(jmx: str = "port: 9999", *, beans: str = "", top: str = "") -> Settings:
    text = f"jmx: {{{top}{', ' if top and beans else ''}{f'beans: [{beans}]' if beans else ''}}}\n"
    return parse_settings(text + CLUSTER.format(jmx=jmx), "f", env={"SECRET": "hunter2"})


@pytest.mark.parametrize(
    ("jmx", "problem"),
    [
        ("via: rmi", "set port, brokers or controllers"),
        ("port: '99{node}'", "is not a port"),
        ("port: 70000", "is not a port"),
        ("brokers: {one: 'a:1'}", "is not a node id"),
        ("brokers: {1: a}", "has no port"),
        ("port: 1, username: u", "username and a password go together"),
        ("port: 1, password: '${SECRET}'", "username and a password go together"),
        ("port: 1, username: u, password: hunter2", "secrets are not allowed in this file"),
    ],
)
def test_errors_of_a_cluster_are_reported(jmx: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem) as error:
        settings(jmx)
    assert "hunter2" not in str(error.value)


@pytest.mark.parametrize(
    ("bean", "problem"),
    [
        ("{bean: nonsense, attribute: a, field: f}", "is not a bean"),
        ("{bean: 'd:a=1', attribute: a, field: Big}", "is not a name of lower-case letters"),
        ("{bean: 'd:a=1', attribute: a, field: bytes_in_rate}", "already exists in table broker"),
        ("{bean: 'd:a=1', attribute: a, field: f, table: topic, labels: {t: a}}", "is a built-in table"),
        ("{bean: 'd:a=1', attribute: a, field: f, table: mine}", "labels and table go together"),
        ("{bean: 'd:a=1', attribute: a, field: f, labels: {t: a}}", "labels and table go together"),
        ("{bean: 'd:a=1', attribute: a, field: f, table: mine, labels: {t: b}}", "the bean has no key property"),
        ("{bean: 'd:a=1', attribute: a, field: f, table: mine, labels: {broker: a}}", "cannot be a label"),
        ("{bean: 'd:a=1', attribute: a, field: f}, {bean: 'd:b=1', attribute: a, field: f}", "is defined twice"),
        (f"{OWN} labels: {{x: a}}, field: f}}, {OWN} labels: {{y: a}}, field: g}}", "must have the same labels"),
        ("{bean: 'd:a=1', attribute: a, field: f, how: median}", "is not one of"),
    ],
)  # fmt: skip
def test_errors_of_user_beans_are_reported_at_load(bean: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        settings(beans=bean)


def test_user_beans_are_added_to_the_catalogue() -> None:
    loaded = settings(
        beans="{bean: 'd:a=*,b=1', attribute: Count, field: f, how: rate, table: mine, labels: {x: a}, unit: things/s}, "
        "{bean: 'd:c=1', attribute: State, field: my_state, how: text}"
    )
    catalogue = catalogue_of(loaded)
    assert [tag.name for tag in catalogue["mine"].tags] == ["cluster", "broker", "x"]
    assert (catalogue["mine"].fields[0].name, catalogue["mine"].fields[0].unit) == ("f", "things/s")
    assert catalogue["broker"].fields[-1].name == "my_state"
    line = user_bean(loaded.jmx.beans[0])
    assert (line.table, line.labels, line.how.name) == ("mine", (("x", "a"),), "RATE")


def test_endpoints_are_read_as_hosts_and_ports() -> None:
    jmx = settings("brokers: {1: 'k1:9999', 2: '[::1]:9998'}, controllers: {101: 'c1:9997'}").clusters[0].jmx
    assert jmx is not None
    listed = listed_endpoints(jmx)
    assert listed.brokers == {1: ("k1", 9999), 2: ("::1", 9998)}
    assert listed.controllers == {101: ("c1", 9997)}


def test_polls_must_not_overlap() -> None:
    with pytest.raises(ConfigError, match=r"cluster east: intervals.jmx \(30s\) must be above jmx.deadline \(30s\)"):
        settings(top="deadline: 30s")


def test_ca_file_excludes_trust_store(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("x")
    top = f"ca_file: {tmp_path}/ca.pem, trust_store: {tmp_path}/ca.pem"
    with pytest.raises(ConfigError, match="set ca_file or trust_store, not both"):
        settings(top=top)


def test_secrets_do_not_show(tmp_path: Path) -> None:
    (tmp_path / "trust.p12").write_text("x")
    loaded = settings(
        "port: 1, username: u, password: '${SECRET}'",
        top=f"trust_store: {tmp_path}/trust.p12, trust_store_password: '${{SECRET}}'",
    )
    options = gateway_options(loaded.jmx)
    assert options.trust_store is not None
    assert options.trust_store.password == "hunter2"
    assert "hunter2" not in f"{options!r} {loaded!r}"

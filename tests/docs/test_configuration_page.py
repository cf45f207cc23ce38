"""The configuration page and its reference agree with the code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lagwatch.cli.app import count_cluster
from lagwatch.cli.config_command import build_config_app
from lagwatch.config import Settings, parse_settings
from lagwatch.config.reference import render_example
from lagwatch.config.section import Section, section_in

PAGE = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text()


def _sections(section: type[Section]) -> Iterator[type[Section]]:
    yield section
    for field in section.model_fields.values():
        inner = section_in(field.annotation)
        if inner:
            yield from _sections(inner)


def test_the_reference_loads_and_says_only_defaults() -> None:
    shortest = "clusters:\n  - name: east\n    bootstrap: [kafka1:9092, kafka2:9092]"
    assert parse_settings(render_example(), "example") == parse_settings(shortest, "shortest")


@pytest.mark.parametrize("section", dict.fromkeys(_sections(Settings)), ids=lambda section: str(section.__name__))
def test_every_key_is_in_the_reference_with_its_meaning(section: type[Section]) -> None:
    lines = [line.strip().lstrip("#- ") for line in render_example().splitlines()]
    for key, field in section.model_fields.items():
        assert field.description, f"{section.__name__}.{key} says nothing about itself"
        assert any(line.startswith(f"{key}:") and line.endswith(f"# {field.description}") for line in lines), key


def test_a_key_without_default_shows_a_sample() -> None:
    for section in _sections(Settings):
        for key, field in section.model_fields.items():
            if section_in(field.annotation) is None and (field.is_required() or field.default is None):
                assert field.examples, f"{section.__name__}.{key}"


def test_lines_of_the_reference_fit_a_terminal_of_120() -> None:
    assert max(map(len, render_example().splitlines())) <= 120


def test_commented_sections_load_once_uncommented(tmp_path: Path) -> None:
    files = (
        "ca.pem",
        "client.pem",
        "client.key",
        "crl.pem",
        "kafka-password",
        "key-password",
        "token",
        "influx-ca.pem",
        "jmx-ca.pem",
        "jmx-client.p12",
        "jmx-key-password",
        "jmx-password",
    )
    for name in files:
        (tmp_path / name).write_text("x")
    text = re.sub(r"(?m)^( *)# (?=(- )?[a-z_]+:)", r"\1", render_example())
    ours, clusters = text.replace("protocol: PLAINTEXT", "protocol: SASL_SSL").split("\nclusters:")
    clusters = _without(clusters, "key_password", "password", "oauth", "token_url", "client_id", "client_secret_file")
    clusters = _without(
        clusters, "client_secret", "scope", "token_file", "token", "kerberos", "service_name", "domain_name"
    )

    ours = _without(
        ours, "token", "trust_store", "trust_store_password_file", "trust_store_password", "key_store_password"
    )

    settings = parse_settings(ours + "\nclusters:" + clusters, "example", folder=tmp_path)

    sasl = settings.clusters[0].security.sasl
    assert sasl is not None
    assert sasl.reveal_password() == "x"
    assert settings.influxdb is not None
    assert settings.influxdb.reveal_token() == "x"
    jmx = settings.clusters[0].jmx
    assert jmx is not None
    assert jmx.reveal_password() == "x"
    assert settings.jmx.beans[0].labels == {"user": "user"}


def _without(text: str, *keys: str) -> str:
    for key in keys:
        text = re.sub(rf"(?m)^ +{key}:.*\n", "", text)
    return text


def test_the_page_shows_the_reference() -> None:
    assert f"```yaml\n{render_example()}```" in PAGE, "docs/configuration.md is behind `lagwatch config example`"


def test_the_other_examples_of_the_page_load(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("x")
    for block in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL):
        parse_settings(block, "page", env={"KAFKA_PASSWORD": "x"}, folder=tmp_path)


@pytest.mark.parametrize("command", ["check", "show", "example"])
def test_every_command_is_on_the_page_and_ends_its_help_with_an_example(command: str) -> None:
    result = CliRunner().invoke(build_config_app(count_cluster), [command, "--help"])
    assert f"lagwatch config {command}" in PAGE
    assert f"Example: lagwatch config {command}" in " ".join(result.output.splitlines()[-3:])


def test_the_examples_of_the_jmx_page_load(tmp_path: Path) -> None:
    for name in ("jmx-ca.pem", "jmx-password"):
        (tmp_path / name).write_text("x")
    page = (Path(__file__).parents[2] / "docs" / "jmx.md").read_text()
    blocks = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    assert len(blocks) > 3
    for block in blocks:
        assert parse_settings(block, "page", folder=tmp_path).clusters[0].jmx is not None

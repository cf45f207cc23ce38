"""`lagwatch check` of a secured cluster: connection problems and missing ACLs."""

from __future__ import annotations

import json
import logging
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

from collectors.preflight.access import LEAST_ACLS
from lagwatch.cli.check_command import check
from lagwatch.demo.kafka_access import AclBinding
from lagwatch.demo.kafka_cluster import KafkaCluster
from tests.harness.secured_kafka import (
    ACLS_PAGE,
    CLUSTER_ACL,
    COMMITS_COMMAND,
    CONFIGS_ACL,
    GROUP_ACL,
    NOBODY,
    PASSWORD,
    PRINCIPAL,
    TOPIC_ACL,
    USER,
    WRONG_PASSWORD,
    documented_commands,
    reading_commits,
    without,
    write_config,
)

Configure = Callable[..., Path]


def run_check(file: Path, caplog: pytest.LogCaptureFixture, *more: str) -> Result:
    """Check, with everything logged, and make sure that no password appears anywhere."""
    app = typer.Typer()
    app.command()(check)
    with caplog.at_level(logging.DEBUG):
        result = CliRunner().invoke(app, [str(file), "--expires-within", "1d", *more])
    output = f"{result.output}{result.stderr}{result.exception!r}{caplog.text}"
    assert PASSWORD not in output
    assert WRONG_PASSWORD not in output
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result


def steps_of(result: Result) -> dict[str, dict[str, Any]]:
    """The steps by name; of several with one name the last."""
    [cluster] = json.loads(result.stdout)["clusters"]
    return {step["step"]: step for step in cluster["steps"]}


def test_the_documented_acls_are_those_check_requires() -> None:
    table = ACLS_PAGE.read_text().partition("|---")[2].partition("\n\n")[0].splitlines()[1:]

    documented = [tuple(cell.strip() for cell in row.split("|")[1:3]) for row in table]

    assert documented == [(acl.operation, acl.resource) for acl in LEAST_ACLS]


def test_with_the_documented_acls_check_finds_nothing(configure: Configure, caplog: pytest.LogCaptureFixture) -> None:
    result = run_check(configure(), caplog, "--json")

    states = {name: step["state"] for name, step in steps_of(result).items()}
    assert set(states.values()) == {"ok"}, states
    assert result.exit_code == 0
    assert "cluster east: all fine" in run_check(configure(), caplog).stdout


@pytest.mark.parametrize("listener", ["SASL_SSL", "SASL_PLAINTEXT"])
def test_a_wrong_password_is_named(listener: str, configure: Configure, caplog: pytest.LogCaptureFixture) -> None:
    result = run_check(configure(listener=listener, password=WRONG_PASSWORD), caplog, "--json")

    login = steps_of(result)["login"]
    assert result.exit_code == 2
    assert login["state"] == "failed"
    assert "SASL authentication failed" in login["message"]
    assert "invalid credentials" in login["message"]
    assert "password is wrong" in login["action"]
    assert steps_of(result)["Metadata"]["message"] == "the login failed"


def test_a_mechanism_that_is_not_offered_is_named(
    secured: KafkaCluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "token").write_text(PASSWORD)
    sasl = {"mechanism": "OAUTHBEARER", "token_file": str(tmp_path / "token")}
    file = write_config(tmp_path, secured, {"protocol": "SASL_PLAINTEXT", "sasl": sasl}, "SASL_PLAINTEXT")

    result = run_check(file, caplog, "--json")

    assert result.exit_code == 2
    assert "does not offer this SASL mechanism" in steps_of(result)["login"]["message"]
    assert "sasl.enabled.mechanisms" in steps_of(result)["login"]["action"]


def test_an_untrusted_issuer_is_named(
    secured: KafkaCluster, configure: Configure, caplog: pytest.LogCaptureFixture
) -> None:
    result = run_check(configure(ca_file=secured.wrong_ca_file), caplog, "--json")

    tls = steps_of(result)["TLS"]
    assert result.exit_code == 2
    assert tls["state"] == "failed"
    assert tls["message"].startswith("untrusted issuer: the certificate is issued by CN=authority")
    assert "ca_file" in tls["action"]
    assert steps_of(result)["login"]["state"] == "not tried"


def test_a_certificate_for_another_host_is_named(
    secured: KafkaCluster, configure: Configure, caplog: pytest.LogCaptureFixture
) -> None:
    # 127.1 is this host too, and no name of the certificate.
    elsewhere = secured.secure_bootstrap.replace("127.0.0.1", "127.1")

    result = run_check(configure(bootstrap=elsewhere), caplog, "--json")

    message = "host name mismatch: the certificate does not name 127.1; it is for localhost, 127.0.0.1"
    assert steps_of(result)["TLS"]["message"] == message
    assert result.exit_code == 2


def test_a_certificate_that_ends_soon_is_a_finding(configure: Configure, caplog: pytest.LogCaptureFixture) -> None:
    result = run_check(configure(), caplog, "--expires-within", "60w")

    assert result.exit_code == 1
    assert "CN=localhost issued by CN=authority, expires in " in result.stdout
    assert "do: renew it" in result.stdout


@pytest.mark.parametrize(
    ("protocol", "listener", "message", "action"),
    [
        ("PLAINTEXT", "SASL_SSL", "the port may speak TLS", "security.protocol: SSL or SASL_SSL"),
        ("PLAINTEXT", "SASL_PLAINTEXT", "connection lost", "its listener may need SASL"),
        ("SSL", "SSL", "alert bad certificate", "set security.tls.cert_file and key_file"),
        ("SSL", "SASL_SSL", "connection lost", "its listener may need SASL"),
        ("SASL_PLAINTEXT", "INTERNAL", "does not use SASL", "security.protocol: PLAINTEXT or SSL"),
    ],
)
def test_a_protocol_that_is_not_the_listeners_is_named(
    secured: KafkaCluster,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    protocol: str,
    listener: str,
    message: str,
    action: str,
) -> None:
    security: dict[str, Any] = {"protocol": protocol}
    if "SSL" in protocol:
        security["tls"] = {"ca_file": str(secured.ca_file)}
    if "SASL" in protocol:
        security["sasl"] = {"mechanism": "PLAIN", "username": USER, "password": "${PASSWORD}"}
        monkeypatch.setenv("PASSWORD", PASSWORD)

    result = run_check(write_config(tmp_path, secured, security, listener), caplog, "--json")

    assert result.exit_code == 2
    assert message in steps_of(result)["login"]["message"]
    assert action in steps_of(result)["login"]["action"]


def test_a_broker_that_advertises_a_wrong_address_is_named(
    configure: Configure, caplog: pytest.LogCaptureFixture
) -> None:
    result = run_check(configure(listener="SASL_PLAINTEXT"), caplog, "--json")

    steps = steps_of(result)
    assert steps["login"]["state"] == "ok"
    assert steps["broker"]["target"] == f"1 at {NOBODY}"
    assert steps["broker"]["message"] == "not reached at its advertised address: TCP: connection refused"
    assert "advertised.listeners" in steps["broker"]["action"]
    assert steps["Metadata"]["message"] == "no broker can be reached at its advertised address"
    assert result.exit_code == 2


@pytest.mark.parametrize(
    ("acl", "needs", "findings"),
    [
        (
            CLUSTER_ACL,
            "Describe on Cluster",
            {
                "ListGroups": "3 groups listed; the list may be filtered: without Describe on the cluster",
                "Metadata": "3 topics listed; the list may be filtered",
                "OffsetFetch": "offsets of 3 groups returned; they may be filtered",
                "DescribeLogDirs": "refused for 1 broker (1): ClusterAuthorizationFailed",
                "DescribeQuorum": "refused for the cluster: ClusterAuthorizationFailed",
            },
        ),
        (
            GROUP_ACL,
            "Describe on Group",
            {
                "OffsetFetch": "refused for 3 groups (billing, classic, new): GroupAuthorizationFailed",
                "DescribeGroups": "refused for 2 groups (billing, classic): GroupAuthorizationFailed",
                "ConsumerGroupDescribe": "refused for 1 group (new): GroupAuthorizationFailed",
            },
        ),
        (
            TOPIC_ACL,
            "Describe on Topic",
            {
                "Metadata": "0 topics listed; 3 topics (__consumer_offsets, orders, refunds) with files on the brokers",
                "OffsetFetch": "offsets of 3 groups returned; they may be filtered",
                "ConsumerGroupDescribe": "refused for 1 group (new): TopicAuthorizationFailed",
            },
        ),
        (
            CONFIGS_ACL,
            "DescribeConfigs on Topic",
            {"DescribeConfigs": "refused for 3 topics (__consumer_offsets, orders, refunds): TopicAuthorizationFailed"},
        ),
    ],
)
def test_a_missing_acl_is_named_with_its_effect(
    secured: KafkaCluster,
    configure: Configure,
    caplog: pytest.LogCaptureFixture,
    acl: tuple[str, str, str],
    needs: str,
    findings: Mapping[str, str],
) -> None:
    with without(secured, acl):
        result = run_check(configure(), caplog, "--json")
        text = run_check(configure(), caplog)

    steps = steps_of(result)
    assert result.exit_code == text.exit_code == 1
    assert {name for name, step in steps.items() if step["state"] in ("failed", "warning")} == set(findings)
    for name, message in findings.items():
        assert steps[name]["message"].startswith(message)
        assert steps[name]["needs"] == needs
        assert steps[name]["impact"]
        operation, _, resource = needs.split()
        assert f"--allow-principal {PRINCIPAL} --operation {operation} --{resource.lower()}" in steps[name]["action"]
    assert f"needs {needs}; without it: " in text.stdout


def test_acls_by_prefix_are_enough_for_what_is_watched(
    secured: KafkaCluster, configure: Configure, caplog: pytest.LogCaptureFixture
) -> None:
    only_orders = {"topics": {"include": ["orders"]}, "groups": {"include": ["billing"]}}
    prefixed = [("DESCRIBE", "TOPIC", "ord"), ("DESCRIBE", "GROUP", "bill"), ("DESCRIBE_CONFIGS", "TOPIC", "ord")]
    for acl in prefixed:
        secured.add_acl(AclBinding(PRINCIPAL, *acl, pattern="PREFIXED"))
    try:
        with without(secured, TOPIC_ACL), without(secured, GROUP_ACL), without(secured, CONFIGS_ACL):
            watched = run_check(configure(**only_orders), caplog)
            everything = run_check(configure(), caplog, "--json")
    finally:
        for acl in prefixed:
            secured.remove_acl(AclBinding(PRINCIPAL, *acl, pattern="PREFIXED"))

    assert watched.exit_code == 0
    assert everything.exit_code == 1
    assert "2 topics (__consumer_offsets, refunds)" in steps_of(everything)["Metadata"]["message"]


def test_the_offsets_topic_is_tried_where_commits_are_to_be_read_from_it(
    secured: KafkaCluster, configure: Configure, caplog: pytest.LogCaptureFixture
) -> None:
    refused = run_check(configure(commits="topic"), caplog, "--json")
    with reading_commits(secured):
        allowed = run_check(configure(commits="topic"), caplog, "--json")
    optional = run_check(configure(), caplog, "--json")
    not_needed = run_check(configure(commits="poll"), caplog, "--json")

    step = steps_of(refused)["Fetch"]
    assert (refused.exit_code, allowed.exit_code, optional.exit_code, not_needed.exit_code) == (1, 0, 0, 0)
    assert step["state"] == "failed"
    assert step["message"].endswith("TopicAuthorizationFailed")
    assert step["needs"] == "Read on Topic __consumer_offsets"
    assert "come from polls" in step["impact"]
    given = documented_commands()[COMMITS_COMMAND]
    assert shlex.split(step["action"])[5:] == given
    fetch = steps_of(optional)["Fetch"]
    assert (fetch["state"], fetch["message"], fetch["action"]) == ("ok", f"optional, {step['message']}", step["action"])
    fine = steps_of(allowed)["Fetch"]
    assert (fine["state"], fine["message"]) == ("ok", "6 partitions")
    assert "Fetch" not in steps_of(not_needed)

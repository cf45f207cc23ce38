"""`lagwatch check`, ACLs: what each response, error or timeout says about the ACLs of the user."""

from __future__ import annotations

from dataclasses import replace

import pytest

from collectors.preflight.access import APIS, DESCRIBE, LEAST_ACLS, AccessResults, access_steps
from collectors.preflight.steps import ClusterCheck, Step

NO_LEADER = 5
EVERYTHING = AccessResults(
    operations=frozenset({DESCRIBE}),
    topics=frozenset({"orders", "refunds"}),
    groups=frozenset({"billing"}),
    disk_topics=frozenset({"orders", "refunds"}),
    answered={api.name: 2 for api in APIS},
)


def steps_of(results: AccessResults) -> dict[str, Step]:
    return {step.step: step for step in access_steps(results, "User:lagwatch", "kafka1:9092")}


def found(results: AccessResults) -> set[str]:
    return {name for name, step in steps_of(results).items() if step.is_finding}


def test_complete_responses_are_all_fine() -> None:
    assert found(EVERYTHING) == set()
    assert steps_of(EVERYTHING)["Metadata"].message == "2 topics"


def test_a_request_without_a_response_is_not_fine() -> None:
    nothing = steps_of(AccessResults())

    assert {name for name, step in nothing.items() if step.state == "ok"} == set()
    assert nothing["Metadata"].message == "no answer"


def test_a_user_without_any_acl_gets_the_list_of_all_acls() -> None:
    without_acls = replace(
        EVERYTHING,
        operations=frozenset(),
        topics=frozenset(),
        groups=frozenset(),
        disk_topics=None,
        errors={
            "DescribeLogDirs": {31: ["1"]},
            "DescribeQuorum": {31: ["quorum"]},
            "DescribeConfigs": {29: ["orders"]},
        },
    )

    needed = {need for step in steps_of(without_acls).values() if step.is_finding for need in step.needs.split(", ")}

    assert needed == {str(acl) for acl in LEAST_ACLS}


def test_topics_with_files_that_are_not_listed_are_named() -> None:
    hidden = replace(EVERYTHING, topics=frozenset({"orders"}))

    step = steps_of(hidden)["Metadata"]

    assert step.state == "warning"
    assert step.message.startswith(
        "1 topic listed; 1 topic (refunds) with files on the brokers left out, without an error"
    )
    assert step.needs == "Describe on Topic"
    assert found(hidden) == {"Metadata", "OffsetFetch"}  # commits on it are left out as well
    assert steps_of(hidden)["OffsetFetch"].message.endswith("such as refunds")


def test_groups_may_be_filtered_without_describe_on_the_cluster() -> None:
    step = steps_of(replace(EVERYTHING, operations=frozenset()))["ListGroups"]

    assert step.state == "warning"
    assert step.message == (
        "1 group listed; the list may be filtered: without Describe on the cluster Kafka shows only groups this user may "
        "describe, without an error"
    )
    assert step.action == (
        "kafka-acls.sh --bootstrap-server kafka1:9092 --command-config admin.properties"
        " --add --allow-principal User:lagwatch --operation Describe --cluster"
    )


def test_a_log_dirs_timeout_is_not_a_missing_acl() -> None:
    late = replace(
        EVERYTHING,
        disk_topics=None,
        answered={},
        request_errors={"DescribeLogDirs": ["broker 1: no answer within 5.0 s"]},
    )
    late.answered.update({api.name: 2 for api in APIS if api.name != "DescribeLogDirs"})

    steps = steps_of(late)

    assert steps["DescribeLogDirs"].state == "failed"
    assert steps["DescribeLogDirs"].message == "broker 1: no answer within 5.0 s"
    assert steps["Metadata"].state == "warning"
    assert "kafka-acls" not in steps["Metadata"].action


@pytest.mark.parametrize(
    ("api", "code", "needs"),
    [
        ("OffsetFetch", 30, "Describe on Group"),
        ("OffsetFetch", 29, "Describe on Topic"),
        ("DescribeGroups", 30, "Describe on Group"),
        ("ConsumerGroupDescribe", 30, "Describe on Group"),
        ("ConsumerGroupDescribe", 29, "Describe on Topic"),
        ("ListOffsets", 29, "Describe on Topic"),
        ("DescribeConfigs", 29, "DescribeConfigs on Topic"),
        ("DescribeLogDirs", 31, "Describe on Cluster"),
        ("DescribeQuorum", 31, "Describe on Cluster"),
    ],
)
def test_a_refusal_names_the_acl_and_what_it_costs(api: str, code: int, needs: str) -> None:
    refused = replace(EVERYTHING, errors={api: {code: ["b", "a"]}})

    step = steps_of(refused)[api]

    assert found(refused) == {api}
    assert step.state == "failed"
    assert step.needs == needs
    assert step.impact


def test_two_refusals_name_two_acls() -> None:
    step = steps_of(replace(EVERYTHING, errors={"OffsetFetch": {30: ["a"], 29: ["b"]}}))["OffsetFetch"]

    assert step.needs == "Describe on Group, Describe on Topic"
    assert len(step.action.splitlines()) == 2


def test_an_error_that_is_not_a_refusal_is_a_warning() -> None:
    step = steps_of(replace(EVERYTHING, errors={"ListOffsets": {NO_LEADER: ["orders/0"]}}))["ListOffsets"]

    assert step.state == "warning"
    assert step.message.startswith("1 partition (orders/0): LeaderNotAvailable")
    assert "not a missing ACL" in step.action


def test_only_errors_other_than_refusals_are_transient() -> None:
    assert not replace(EVERYTHING, errors={"OffsetFetch": {30: ["a"]}}).has_transient_errors()
    assert replace(EVERYTHING, errors={"OffsetFetch": {30: ["a"], NO_LEADER: ["b"]}}).has_transient_errors()


def test_a_request_that_is_not_needed_is_no_finding() -> None:
    step = steps_of(replace(EVERYTHING, not_needed={"ConsumerGroupDescribe": "no such group"}))["ConsumerGroupDescribe"]

    assert (step.state, step.is_finding, step.message) == ("not tried", False, "no such group")


@pytest.mark.parametrize(
    ("states", "reached_brokers", "code"),
    [
        (["ok", "not tried"], True, 0),
        (["ok", "warning"], True, 1),
        (["failed", "ok"], True, 1),
        (["failed", "not tried"], False, 2),
    ],
)
def test_the_exit_code_is_0_fine_1_found_2_unreachable(states: list[str], reached_brokers: bool, code: int) -> None:
    steps = tuple(Step("x", "", state, "") for state in states)  # type: ignore[arg-type]

    assert ClusterCheck("east", ("kafka1:9092",), "PLAINTEXT", steps, reached_brokers).exit_code == code

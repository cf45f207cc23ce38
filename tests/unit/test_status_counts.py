"""Number of groups in each status, in the row of the cluster."""

from __future__ import annotations

from lagwatch.batch import Batch, make_batch
from lagwatch.catalogue import CLUSTER, CONSUMER_GROUP, TOPIC
from lagwatch.verdict.status_counts import with_status_counts
from tests.harness.polls import rows_of


def groups(*rows: tuple[str, int | None, bool]) -> Batch:
    names, statuses, stale = zip(*rows, strict=True)
    return make_batch(CONSUMER_GROUP, "east", 5, {"group": names, "status": statuses, "stale": stale})


def test_groups_are_counted_by_status_and_stale_ones_apart() -> None:
    cluster = make_batch(CLUSTER, "east", 5, {"brokers": [3]})

    [row] = rows_of(
        with_status_counts([groups(("a", 1, False), ("b", 1, False), ("c", 4, False), ("d", 1, True)), cluster]),
        "cluster",
    )

    assert (row["groups_ok"], row["groups_stop"], row["groups_warn"], row["groups_stale"]) == (2, 1, 0, 1)
    assert row["brokers"] == 3


def test_a_poll_without_a_row_of_the_cluster_gets_one() -> None:
    batches = with_status_counts([groups(("a", 1, True))])

    assert [batch.table for batch in batches] == ["consumer_group", "cluster"]
    [row] = rows_of(batches, "cluster")
    assert (row["groups_ok"], row["groups_stale"], row["brokers"]) == (0, 1, None)


def test_statuses_without_evaluation_are_absent_not_zero() -> None:
    [row] = rows_of(with_status_counts([groups(("a", None, False))]), "cluster")

    assert row["groups_ok"] is None


def test_a_poll_without_groups_is_left_as_it_is() -> None:
    batches = [make_batch(TOPIC, "east", 5, {"topic": ["t"]})]

    assert with_status_counts(batches) == batches

"""Collects the controller quorum: its leader, and the lag of its voters. Needs Describe on the cluster.

Brokers forward DescribeQuorum to the controller and do not respond until there is one. So if no broker responds to it
but brokers respond to other requests, the cluster has no controller.
"""

from __future__ import annotations

from typing import Any

from collectors.kafka_client import requests
from collectors.kafka_client.any_broker import request_any
from collectors.kafka_client.connection_interface import Connection, Deadline
from lagwatch.batch import Batch, make_batch
from lagwatch.catalogue import BROKER, CLUSTER
from lagwatch.errors import SourceError
from lagwatch.protocols import Collected, Failure
from lagwatch.source_names import QUORUM

_QUORUM_SHARE = 0.8  # of the deadline; the rest is for checking whether the brokers respond at all
_CONTROLLER = "controller"


class KafkaQuorum:
    """Collects the controller fields of `cluster` and `broker`."""

    source = QUORUM

    def __init__(self, cluster: str, connection: Connection, *, deadline_seconds: float = 5.0) -> None:
        self._cluster = cluster
        self._connection = connection
        self._deadline_seconds = deadline_seconds

    def collect(self, now_ms: int) -> Collected:
        """Fetch the quorum once."""
        try:
            response = self._connection.run(self._fetch, self._deadline_seconds)
        except SourceError as error:
            return Collected([], [Failure(QUORUM, "", str(error))], complete=False)
        if response is None:
            reason = "no controller: the brokers answer, but none of them can reach a controller"
            return Collected([self._no_controller(now_ms)], [Failure(QUORUM, _CONTROLLER, reason)], complete=False)
        if isinstance(response, int):  # an error code from the controller
            return Collected([], [Failure(QUORUM, _CONTROLLER, requests.describe_error_code(response))], complete=False)
        return Collected(self._batches(now_ms, response), [], [_CONTROLLER])

    async def _fetch(self, deadline: Deadline) -> Any:
        request = requests.describe_quorum_request()
        if not self._connection.supports(request):
            return await self._fetch_zookeeper_controller(deadline)
        try:
            response = await request_any(
                self._connection, request, deadline.at_most(deadline.remaining() * _QUORUM_SHARE)
            )
        except SourceError:
            # Raises if no broker responds.
            await request_any(self._connection, requests.describe_cluster_request(), deadline)
            return None
        if response.error_code:
            return response.error_code
        partition = response.topics[0].partitions[0]
        if partition.error_code:
            return partition.error_code
        return partition if partition.leader_id >= 0 else None

    async def _fetch_zookeeper_controller(self, deadline: Deadline) -> Any:
        response = await request_any(self._connection, requests.describe_cluster_request(), deadline)
        return _ZooKeeperController(response.controller_id) if response.controller_id >= 0 else None

    def _no_controller(self, now_ms: int) -> Batch:
        return make_batch(CLUSTER, self._cluster, now_ms, {"active_controllers": [0]})

    def _batches(self, now_ms: int, quorum: Any) -> list[Batch]:
        voters = quorum.current_voters
        end = max((voter.log_end_offset for voter in voters), default=-1)
        behind = [end - voter.log_end_offset for voter in voters if voter.log_end_offset >= 0]
        cluster = {
            "active_controllers": [1],
            "controller": [quorum.leader_id],
            "quorum_epoch": [quorum.leader_epoch],
            "quorum_voters": [len(voters) or None],
            "quorum_max_lag": [max(behind, default=None)],
        }
        nodes = sorted({quorum.leader_id, *(voter.replica_id for voter in voters)})
        brokers = {"broker": nodes, "controller": [node == quorum.leader_id for node in nodes]}
        return [
            make_batch(CLUSTER, self._cluster, now_ms, cluster),
            make_batch(BROKER, self._cluster, now_ms, brokers),
        ]


class _ZooKeeperController:
    """The controller of a ZooKeeper cluster, in the shape of a DescribeQuorum partition."""

    current_voters = ()
    leader_epoch = None

    def __init__(self, controller: int) -> None:
        self.leader_id = controller

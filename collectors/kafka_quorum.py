"""The controllers: who leads their quorum, and how far its voters are behind. Needs Describe on the cluster.

Brokers pass this question on to the controller and answer nothing until there is one. So when no broker answers it
while brokers do answer others, the cluster has no controller.
"""

from __future__ import annotations

from typing import Any

from collectors.kafka_client import requests as wire
from collectors.kafka_client.any_broker import ask_any
from collectors.kafka_client.protocol import Connection, Deadline
from lagwatch.batch import Batch, make_batch
from lagwatch.catalogue import BROKER, CLUSTER
from lagwatch.errors import SourceError
from lagwatch.protocols import Collected, Failure

SOURCE = "kafka_quorum"
_PATIENCE = 0.8  # of the deadline; the rest is for finding out whether the brokers themselves are alive
_CONTROLLER = "controller"


class KafkaQuorum:
    """Collects the controller's part of `cluster` and `broker`."""

    source = SOURCE

    def __init__(self, cluster: str, connection: Connection, *, deadline_seconds: float = 5.0) -> None:
        self._cluster = cluster
        self._connection = connection
        self._deadline_seconds = deadline_seconds

    def collect(self, now_ms: int) -> Collected:
        """Ask once."""
        try:
            answer = self._connection.run(self._ask, self._deadline_seconds)
        except SourceError as error:
            return Collected([], [Failure(SOURCE, "", str(error))], complete=False)
        if answer is None:
            reason = "no controller: the brokers answer, but none of them could reach a controller"
            return Collected([self._no_controller(now_ms)], [Failure(SOURCE, _CONTROLLER, reason)], complete=False)
        if isinstance(answer, int):  # an error the controller gave
            return Collected([], [Failure(SOURCE, _CONTROLLER, wire.error_words(answer))], complete=False)
        return Collected(self._batches(now_ms, answer), [], [_CONTROLLER])

    async def _ask(self, deadline: Deadline) -> Any:
        request = wire.describe_quorum_request()
        if not self._connection.supports(request):
            return await self._ask_zookeeper_cluster(deadline)
        try:
            answer = await ask_any(self._connection, request, deadline.sooner(deadline.left() * _PATIENCE))
        except SourceError:
            await ask_any(self._connection, wire.describe_cluster_request(), deadline)  # raises if nobody is alive
            return None
        if answer.error_code:
            return answer.error_code
        partition = answer.topics[0].partitions[0]
        if partition.error_code:
            return partition.error_code
        return partition if partition.leader_id >= 0 else None

    async def _ask_zookeeper_cluster(self, deadline: Deadline) -> Any:
        answer = await ask_any(self._connection, wire.describe_cluster_request(), deadline)
        return _ZooKeeperController(answer.controller_id) if answer.controller_id >= 0 else None

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
    """A controller without a quorum, in the shape of a quorum's answer."""

    current_voters = ()
    leader_epoch = None

    def __init__(self, controller: int) -> None:
        self.leader_id = controller

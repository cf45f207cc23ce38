"""Collects broker and controller metrics over JMX: load, latency, replicas, quorum, JVM.

Queries all nodes in parallel within one deadline. A node that hangs affects only its own rows, and is not queried again
while a call to it is pending.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from collectors.jmx_beans.beans import DEFAULT_BEANS, Bean, Role
from collectors.jmx_beans.connection_interface import BeanAttributes, BeanQuery, JmxConnection
from collectors.jmx_beans.parsing import warns_on_missing_attribute
from collectors.jmx_beans.rows import jmx_batches
from collectors.jmx_beans.values import (
    Counters,
    Key,
    QueryPlan,
    Row,
    evaluate,
    jvm_start_ms,
    patterns_in,
    plan_queries,
    roles_in,
)
from collectors.jmx_client.endpoints import Endpoint, Endpoints
from lagwatch.batch import Batch, make_batch
from lagwatch.catalogue import BUILT_IN, EVENT, Catalogue
from lagwatch.errors import SourceError
from lagwatch.event_kinds import EventKind
from lagwatch.protocols import Collected, Failure
from lagwatch.source_names import JMX

log = logging.getLogger(__name__)

_ENDPOINTS_SHARE = 0.25  # of the deadline, for fetching the brokers' addresses from Kafka
_MAX_BEANS = 500  # read for one pattern: a broker may have one bean for each of thousands of clients

Connect = Callable[[str, int], JmxConnection]


class JmxBrokers:
    """Collects `broker`, `broker_request`, the JMX part of `cluster` and, if configured, of `topic`.

    `connect` opens a connection to a host and port; `tables` is the catalogue including the user's own fields.
    """

    source = JMX

    def __init__(
        self,
        cluster: str,
        connect: Connect,
        endpoints: Endpoints,
        *,
        beans: Sequence[Bean] = DEFAULT_BEANS,
        tables: Catalogue = BUILT_IN,
        deadline_seconds: float = 5.0,
    ) -> None:
        self._cluster = cluster
        self._connect = connect
        self._endpoints = endpoints
        self._beans = tuple(beans)
        self._tables = tables
        self._deadline_seconds = deadline_seconds
        self._nodes: dict[Endpoint, _JmxNode] = {}

    def collect(self, now_ms: int) -> Collected:
        """Query every node once, in parallel."""
        until = time.monotonic() + self._deadline_seconds
        endpoints = self._endpoints.find(self._deadline_seconds * _ENDPOINTS_SHARE)
        if not endpoints:
            reason = f"no JMX endpoint: {self._endpoints.failure_reason}"
            return Collected([], [Failure(JMX, "", reason)], complete=False)
        for gone in self._nodes.keys() - set(endpoints):
            self._nodes.pop(gone).disconnect()
        nodes = {endpoint: self._nodes.setdefault(endpoint, self._new_node(endpoint)) for endpoint in endpoints}
        calls = {endpoint: node.start() for endpoint, node in nodes.items()}
        failures, rows_by_endpoint, restarted = [], {}, []
        for endpoint, call in calls.items():
            outcome = call.wait(until - time.monotonic()) if isinstance(call, _NodeCall) else call
            if isinstance(outcome, SourceError):
                failures.append(Failure(JMX, endpoint.target, f"{endpoint.host}:{endpoint.port}: {outcome}"))
                continue
            rows, was_restarted = nodes[endpoint].rows_of(outcome)
            rows_by_endpoint[endpoint] = rows
            restarted += [endpoint] if was_restarted else []
        if not rows_by_endpoint:
            whole = Failure(JMX, "", f"no node answered; {failures[0].target} at {failures[0].reason}")
            return Collected([], [whole, *failures], complete=False)
        rows_by_node = {endpoint.node: rows for endpoint, rows in rows_by_endpoint.items()}
        batches = jmx_batches(self._cluster, now_ms, rows_by_node, self._tables, complete=not failures)
        reached = [endpoint.target for endpoint in rows_by_endpoint]
        return Collected([*batches, *self._events(now_ms, restarted)], failures, reached, complete=not failures)

    def close(self) -> None:
        """Close all connections; does not wait for pending calls."""
        nodes, self._nodes = self._nodes, {}
        for node in list(nodes.values()):  # a poll may be adding one
            node.disconnect()

    def _new_node(self, endpoint: Endpoint) -> _JmxNode:
        return _JmxNode(endpoint, self._connect, self._beans)

    def _events(self, now_ms: int, restarted: Sequence[Endpoint]) -> list[Batch]:
        if not restarted:
            return []
        columns = {
            "kind": [EventKind.NODE_RESTARTED.value] * len(restarted),
            "subject": [endpoint.target for endpoint in restarted],
            "why": [f"the JVM of {endpoint.target} restarted" for endpoint in restarted],
        }
        return [make_batch(EVENT, self._cluster, now_ms, columns)]


@dataclass(frozen=True, slots=True)
class _NodeResponse:
    """A node's answers and the time of the query."""

    plan: QueryPlan
    answers: Sequence[BeanAttributes]
    roles: frozenset[Role]
    at: float


class _NodeCall:
    """One query to a node, on its own thread: nothing can interrupt a call that hangs."""

    def __init__(self, work: Callable[[], _NodeResponse], name: str) -> None:
        self.started_at = time.monotonic()
        self._work = work
        self._done = threading.Event()
        self._outcome: _NodeResponse | SourceError = SourceError("not queried")
        threading.Thread(target=self._run, name=f"jmx {name}", daemon=True).start()

    @property
    def pending(self) -> bool:
        """Whether the response is outstanding."""
        return not self._done.is_set()

    def wait(self, seconds: float) -> _NodeResponse | SourceError:
        """Wait for the response; returns the reason if there is none after `seconds`."""
        if self._done.wait(max(0.0, seconds)):
            return self._outcome
        return SourceError(f"no answer within {time.monotonic() - self.started_at:.1f} s")

    def _run(self) -> None:
        try:
            self._outcome = self._work()
        except SourceError as error:
            self._outcome = error
        except Exception as error:
            log.exception("JMX call failed")
            self._outcome = SourceError(f"internal error, please report it: {type(error).__name__}: {error}")
        finally:
            self._done.set()


class _JmxNode:
    """The state of one node across polls: its connection, its counters and the pending call."""

    def __init__(self, endpoint: Endpoint, connect: Connect, beans: Sequence[Bean]) -> None:
        self._endpoint = endpoint
        self._connect = connect
        self._beans = beans
        self._patterns = patterns_in(beans)
        self._connection: JmxConnection | None = None
        self._call: _NodeCall | None = None
        self._counters = Counters()
        self._names: dict[str, list[str]] = {}
        self._plan = QueryPlan((), ())
        self._attributes: dict[str, frozenset[str]] = {}  # by bean, only where `warns_on_missing_attribute`

    def start(self) -> _NodeCall | SourceError:
        """Start a query, unless the call of an earlier poll is pending."""
        if self._call is not None and self._call.pending:
            age = time.monotonic() - self._call.started_at
            return SourceError(f"not queried: the call started {age:.0f} s ago is still pending")
        self._call = _NodeCall(self._query, self._endpoint.target)
        return self._call

    def rows_of(self, response: _NodeResponse) -> tuple[dict[Key, Row], bool]:
        """The node's rows, and whether its JVM has restarted since the previous poll."""
        before = self._counters
        rows, self._counters = evaluate(response.plan, response.answers, response.roles, before, response.at)
        started = jvm_start_ms(rows)
        return rows, None not in (before.started, started) and started != before.started

    def disconnect(self) -> None:
        """Close the connection on its own thread: closing may hang, too."""
        connection, self._connection = self._connection, None
        if connection is not None:
            threading.Thread(target=connection.close, name=f"jmx {self._endpoint.target}", daemon=True).start()

    def _query(self) -> _NodeResponse:
        connection = self._connection
        try:
            if connection is None:
                connection = self._connection = self._connect(self._endpoint.host, self._endpoint.port)
            names = dict(zip(self._patterns, connection.names(self._patterns), strict=True))
            if names != self._names:
                self._names, self._plan = names, plan_queries(self._beans, names, _MAX_BEANS)
                self._warn_about_limit(names)
            queries = self._safe_queries(connection)
            at = time.monotonic()
            answers = connection.read(queries)
            self._forget_missing(queries, answers)
            return _NodeResponse(self._plan, answers, roles_in(names), at)
        except SourceError:
            self._connection, self._attributes = None, {}
            if connection is not None:
                connection.close()
            raise

    def _safe_queries(self, connection: JmxConnection) -> list[BeanQuery]:
        """The plan's queries, without missing attributes for which the broker would log a warning at every poll."""
        guarded = {query.bean for query in self._plan.queries if warns_on_missing_attribute(query.bean)}
        unlisted = [q.bean for q in self._plan.queries if q.bean in guarded and not self._knows_attributes(q)]
        self._attributes |= zip(unlisted, map(frozenset, connection.attributes(unlisted)), strict=True)
        return [
            BeanQuery(q.bean, tuple(name for name in q.attributes if name in self._attributes[q.bean]))
            if q.bean in guarded
            else q
            for q in self._plan.queries
        ]

    def _knows_attributes(self, query: BeanQuery) -> bool:
        return self._attributes.get(query.bean, frozenset()) >= set(query.attributes)

    def _forget_missing(self, queries: Sequence[BeanQuery], answers: Sequence[BeanAttributes]) -> None:
        """Look up a bean's attributes again at the next poll if some of them were missing in the response."""
        for query, answer in zip(queries, answers, strict=True):
            if answer is None or len(answer) < len(query.attributes):
                self._attributes.pop(query.bean, None)

    def _warn_about_limit(self, names: dict[str, list[str]]) -> None:
        for pattern, found in names.items():
            if len(found) > _MAX_BEANS:
                log.warning(
                    "too many JMX beans target=%r pattern=%r found=%d read=%d",
                    self._endpoint.target,
                    pattern,
                    len(found),
                    _MAX_BEANS,
                )

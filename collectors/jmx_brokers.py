"""The vital signs of brokers and controllers over JMX: load, latency, replicas, quorum, JVM.

Nodes are asked side by side, each within the deadline. One that hangs costs only itself, and is left alone while a call
to it is still out.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from collectors.jmx_beans.beans import DEFAULT_BEANS, Bean, Role
from collectors.jmx_beans.rows import batches_of
from collectors.jmx_beans.values import Counters, Key, Plan, Row, as_started, evaluate, make_plan, patterns_in, roles_in
from collectors.jmx_client.endpoints import Endpoint, Endpoints
from collectors.jmx_client.parsing import BeanAnswer, BeanQuery, JmxConnection, logs_what_it_lacks
from lagwatch.batch import Batch, make_batch
from lagwatch.catalogue import BUILT_IN, EVENT, Catalogue
from lagwatch.errors import SourceError
from lagwatch.kafka_names import JMX
from lagwatch.protocols import Collected, Failure

log = logging.getLogger(__name__)

_FOR_ENDPOINTS = 0.25  # of the deadline, to learn from Kafka where the brokers are
_MOST_BEANS = 500  # that one pattern is read for: a broker may have a bean for each of many thousand clients

Connect = Callable[[str, int], JmxConnection]


class JmxBrokers:
    """Collects `broker`, `broker_request`, the JMX part of `cluster` and, where asked for, of `topic`.

    `connect` opens a connection to a host and port; `tables` is the catalogue with the user's own fields.
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
        self._nodes: dict[Endpoint, _Node] = {}

    def collect(self, now_ms: int) -> Collected:
        """Ask every node once, side by side."""
        until = time.monotonic() + self._deadline_seconds
        endpoints = self._endpoints.find(self._deadline_seconds * _FOR_ENDPOINTS)
        if not endpoints:
            reason = f"no JMX endpoint is known: {self._endpoints.why_none}"
            return Collected([], [Failure(JMX, "", reason)], complete=False)
        for gone in self._nodes.keys() - set(endpoints):
            self._nodes.pop(gone).forget()
        nodes = {endpoint: self._nodes.setdefault(endpoint, self._new_node(endpoint)) for endpoint in endpoints}
        calls = {endpoint: node.start() for endpoint, node in nodes.items()}
        failures, heard, restarted = [], {}, []
        for endpoint, call in calls.items():
            outcome = call.wait(until - time.monotonic()) if isinstance(call, _Call) else call
            if isinstance(outcome, SourceError):
                failures.append(Failure(JMX, endpoint.target, f"{endpoint.host}:{endpoint.port}: {outcome}"))
                continue
            rows, was_restarted = nodes[endpoint].take(outcome)
            heard[endpoint] = rows
            restarted += [endpoint] if was_restarted else []
        if not heard:
            whole = Failure(JMX, "", f"no node answered, such as {failures[0].target} at {failures[0].reason}")
            return Collected([], [whole, *failures], complete=False)
        told = {endpoint.node: rows for endpoint, rows in heard.items()}
        batches = batches_of(self._cluster, now_ms, told, self._tables, complete=not failures)
        reached = [endpoint.target for endpoint in heard]
        return Collected([*batches, *self._events(now_ms, restarted)], failures, reached, complete=not failures)

    def close(self) -> None:
        """Let go of all connections; does not wait for calls that are out."""
        for node in self._nodes.values():
            node.forget()
        self._nodes = {}

    def _new_node(self, endpoint: Endpoint) -> _Node:
        return _Node(endpoint, self._connect, self._beans)

    def _events(self, now_ms: int, restarted: Sequence[Endpoint]) -> list[Batch]:
        if not restarted:
            return []
        columns = {
            "kind": ["node_restarted"] * len(restarted),
            "subject": [endpoint.target for endpoint in restarted],
            "why": [f"the JVM of {endpoint.target} was started again" for endpoint in restarted],
        }
        return [make_batch(EVENT, self._cluster, now_ms, columns)]


@dataclass(frozen=True, slots=True)
class _Told:
    """What a node answered, and when it was asked."""

    plan: Plan
    answers: Sequence[BeanAnswer]
    roles: frozenset[Role]
    at: float


class _Call:
    """One question to a node, on a thread of its own: nothing can interrupt a call that hangs."""

    def __init__(self, work: Callable[[], _Told], name: str) -> None:
        self.began = time.monotonic()
        self._work = work
        self._done = threading.Event()
        self._outcome: _Told | SourceError = SourceError("nothing was asked")
        threading.Thread(target=self._run, name=f"jmx {name}", daemon=True).start()

    @property
    def out(self) -> bool:
        """Whether it still waits for an answer."""
        return not self._done.is_set()

    def wait(self, seconds: float) -> _Told | SourceError:
        """The answer, or why there is none after so long."""
        if self._done.wait(max(0.0, seconds)):
            return self._outcome
        return SourceError(f"no answer within {time.monotonic() - self.began:.1f} s")

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


class _Node:
    """One node over the polls: its connection, its counters, and the call that may still be out."""

    def __init__(self, endpoint: Endpoint, connect: Connect, beans: Sequence[Bean]) -> None:
        self._endpoint = endpoint
        self._connect = connect
        self._beans = beans
        self._patterns = patterns_in(beans)
        self._connection: JmxConnection | None = None
        self._call: _Call | None = None
        self._counters = Counters()
        self._names: dict[str, list[str]] = {}
        self._plan = Plan((), ())
        self._has: dict[str, frozenset[str]] = {}  # attributes of beans, where it matters

    def start(self) -> _Call | SourceError:
        """Ask it, unless the call of an earlier poll is still out."""
        if self._call is not None and self._call.out:
            age = time.monotonic() - self._call.began
            return SourceError(f"not asked: the call of {age:.0f} s ago is still out")
        self._call = _Call(self._ask, self._endpoint.target)
        return self._call

    def take(self, told: _Told) -> tuple[dict[Key, Row], bool]:
        """Its rows, and whether it was started again since the poll before."""
        before = self._counters
        rows, self._counters = evaluate(told.plan, told.answers, told.roles, before, told.at)
        started = as_started(rows)
        return rows, None not in (before.started, started) and started != before.started

    def forget(self) -> None:
        """Close its connection, on a thread of its own: even that may hang."""
        connection, self._connection = self._connection, None
        if connection is not None:
            threading.Thread(target=connection.close, name=f"jmx {self._endpoint.target}", daemon=True).start()

    def _ask(self) -> _Told:
        connection = self._connection
        try:
            if connection is None:
                connection = self._connection = self._connect(self._endpoint.host, self._endpoint.port)
            names = dict(zip(self._patterns, connection.names(self._patterns), strict=True))
            if names != self._names:
                self._names, self._plan = names, make_plan(self._beans, names, _MOST_BEANS)
                self._warn_of_many(names)
            questions = self._askable(connection)
            at = time.monotonic()
            answers = connection.read(questions)
            self._unlearn(questions, answers)
            return _Told(self._plan, answers, roles_in(names), at)
        except SourceError:
            self._connection, self._has = None, {}
            if connection is not None:
                connection.close()
            raise

    def _askable(self, connection: JmxConnection) -> list[BeanQuery]:
        """The questions without attributes that beans do not have and whose asking would fill the broker's log."""
        careful = {question.bean for question in self._plan.questions if logs_what_it_lacks(question.bean)}
        unsure = [q.bean for q in self._plan.questions if q.bean in careful and not self._has_all(q)]
        self._has |= zip(unsure, map(frozenset, connection.attributes(unsure)), strict=True)
        return [
            BeanQuery(q.bean, tuple(name for name in q.attributes if name in self._has[q.bean]))
            if q.bean in careful
            else q
            for q in self._plan.questions
        ]

    def _has_all(self, question: BeanQuery) -> bool:
        return self._has.get(question.bean, frozenset()) >= set(question.attributes)

    def _unlearn(self, questions: Sequence[BeanQuery], answers: Sequence[BeanAnswer]) -> None:
        """What a bean had and no longer has is looked up again at the next poll."""
        for question, answer in zip(questions, answers, strict=True):
            if answer is None or len(answer) < len(question.attributes):
                self._has.pop(question.bean, None)

    def _warn_of_many(self, names: dict[str, list[str]]) -> None:
        for pattern, found in names.items():
            if len(found) > _MOST_BEANS:
                log.warning(
                    "JMX of %s has %d beans %s; %d are read", self._endpoint.target, len(found), pattern, _MOST_BEANS
                )

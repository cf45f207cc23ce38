"""One job's connections to a cluster: opened on first use, begun anew when a run fails.

The job hands in a coroutine, which runs on the I/O thread of a session, and waits for it with a deadline.
Beside this file only kafka_session.py and kafka_wire.py know kafka-python.
"""

from __future__ import annotations

import re
import ssl
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import kafka.errors
from kafka.net.sasl.oauth import AbstractTokenProvider
from kafka.net.transport import KafkaSSLTransport

from collectors.kafka_client import requests as wire
from collectors.kafka_client.protocol import Deadline
from collectors.kafka_client.session import CLOSED, Session
from lagwatch.errors import SourceError

T = TypeVar("T")

_GRACE_SECONDS = 1.0  # for the loop to notice its own deadline before the waiting thread gives up on it
_LOOK_AGAIN_SECONDS = 0.02
_SAID_BY_TYPE: Mapping[type[Exception], str] = {
    kafka.errors.UnsupportedSaslMechanismError: "the broker does not offer this SASL mechanism",
    kafka.errors.IllegalSaslStateError: "the broker does not use SASL on this port",
    kafka.errors.InvalidReceiveError: "the answer is not in Kafka's protocol: the port may speak TLS",
    kafka.errors.IncompatibleBrokerVersion: "the broker does not know this request; lagwatch needs Kafka 2.8 or later",
}
_TLS_NOISE = re.compile(r"\[SSL[^\]]*\] | \(_ssl\.c:\d+\)")


@dataclass(frozen=True, slots=True)
class ConnectionOptions:
    """How to reach a cluster. `client` holds kafka-python's own security options; it may hold secrets, so it has no repr."""

    bootstrap: tuple[str, ...]
    client: Mapping[str, Any] = field(default_factory=dict, repr=False)
    oauth_token: Callable[[], str] | None = field(default=None, repr=False)
    receive_max_bytes: int = 100 * 1024 * 1024
    client_id: str = "lagwatch"


class _TokenProvider(AbstractTokenProvider):  # type: ignore[misc]
    def __init__(self, token: Callable[[], str]) -> None:
        self._token = token

    def token(self) -> str:
        return self._token()


class KafkaConnection:
    """Asks brokers of one cluster, for one thread at a time; any thread may close it."""

    def __init__(self, options: ConnectionOptions) -> None:
        self._options = options
        self._closing = threading.Lock()  # so that none is opened after it was closed
        self._closed = False
        self._session: Session | None = None
        self._reasons: dict[Any, str] = {}  # why a broker could last not be reached

    def run(self, work: Callable[[Deadline], Coroutine[Any, Any, T]], seconds: float) -> T:
        """Run the coroutine on the I/O thread, connecting first if need be. Raises SourceError; blocks `seconds` at most.

        After a failure brokers may have new addresses: the next run starts from the bootstrap servers again.
        """
        deadline = Deadline.after(seconds)
        session = self._session
        try:
            if session is None:
                session = self._begin(deadline)
                session.run(lambda: self._bootstrap(session, deadline), deadline.left() + _GRACE_SECONDS)
            return session.run(lambda: work(deadline), deadline.left() + _GRACE_SECONDS)
        except BaseException:
            self._drop()
            raise

    async def ask(self, node: int | str, request: Any, deadline: Deadline) -> Any:
        """One request to one broker. Raises SourceError with the reason in words."""
        session = self._here()
        if session is None:
            raise SourceError(CLOSED)
        manager = session.manager
        seconds = deadline.left()
        if seconds <= 0:
            raise SourceError("no time was left in this poll")
        # kafka-python never tries a broker again that once refused the password; ours may have been rotated since.
        manager._auth_failures.pop(node, None)  # noqa: SLF001
        try:
            connection = manager.get_connection(node, timeout_ms=seconds * 1000, refresh_metadata_on_err=False)
            await _wait_while_throttled(session, connection, deadline)
            answer = await manager.wait_for(
                connection.send_request(request, request_timeout_ms=seconds * 1000), seconds * 1000
            )
        except SourceError:
            raise
        except kafka.errors.NodeNotReadyError as error:
            raise SourceError(self._reasons.get(node) or reason_in_words(error, seconds)) from None
        except Exception as error:  # noqa: BLE001  # sockets, TLS, SASL and the codec each raise their own
            self._reasons[node] = reason_in_words(error, seconds)
            raise SourceError(self._reasons[node]) from None
        self._reasons.pop(node, None)
        return answer

    async def gather(self, works: Sequence[Coroutine[Any, Any, T]]) -> list[T | SourceError]:
        """Run coroutines side by side on the loop; each yields its result or its own SourceError."""
        session = self._here()
        if session is None:
            for work in works:
                work.close()
            return [SourceError(CLOSED)] * len(works)
        futures = [session.manager.call_soon(work) for work in works]
        results: list[T | SourceError] = []
        for future in futures:
            try:
                results.append(await future)
            except SourceError as error:
                results.append(error)
        return results

    def supports(self, request: Any) -> bool:
        """Whether the cluster's brokers know this request in a version we can use."""
        session = self._here()
        versions = session.manager.broker_version_data if session else None
        if versions is None:
            return False
        try:
            versions.api_version(request)
        except (ValueError, kafka.errors.IncompatibleBrokerVersion):
            return False
        return True

    def nodes(self) -> list[int]:
        """Brokers the connections know how to reach."""
        return sorted(self.addresses())

    def addresses(self) -> dict[int, tuple[str, int]]:
        """Where each of them is."""
        session = self._here()
        brokers = session.manager.cluster.brokers() if session else []
        return {broker.node_id: (broker.host, broker.port) for broker in brokers}

    async def refresh(self, node: int | str, deadline: Deadline) -> None:
        """Learn the brokers' addresses anew from one that answers. Raises SourceError.

        kafka-python's own refresh waits 30 s for a broker that hangs and makes all others wait for that same answer.
        """
        answer = await self.ask(node, wire.brokers_request(), deadline)
        session = self._here()
        if session is None:
            raise SourceError(CLOSED)
        if not answer.brokers:
            raise SourceError("the broker names no brokers: it may still be starting")
        session.manager.cluster.update_metadata(answer)

    def close(self) -> None:
        """Close for good. Work that is under way, connecting too, fails at once."""
        with self._closing:
            self._closed = True
        self._drop()

    def _here(self) -> Session | None:
        """The session whose work this is, were it given up meanwhile; for other threads the newest."""
        return Session.here() or self._session

    def _begin(self, deadline: Deadline) -> Session:
        with self._closing:
            if self._closed:
                raise SourceError(CLOSED)
            try:
                self._session = Session(self._options.client_id, self._manager_options())
            except Exception as error:  # noqa: BLE001  # certificates that cannot be read, addresses that make no sense
                raise SourceError(reason_in_words(error, deadline.left())) from None
            return self._session

    def _drop(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.end()

    def _manager_options(self) -> dict[str, Any]:
        client = _client_options(self._options)
        if self._options.oauth_token is not None:
            client["sasl_oauth_token_provider"] = _TokenProvider(self._options.oauth_token)
        return {
            "bootstrap_servers": list(self._options.bootstrap),
            "receive_message_max_bytes": self._options.receive_max_bytes,
            "reconnect_backoff_max_ms": 1000,  # a broker that is back is asked in the next poll, not 30 s later
            "max_in_flight_requests_per_connection": 1000,  # over it a send fails at once instead of waiting
            **client,
        }

    async def _bootstrap(self, session: Session, deadline: Deadline) -> None:
        """kafka-python's own bootstrap drops the reason why nobody answered; this keeps it."""
        servers = session.manager.cluster.bootstrap_brokers()
        reasons = []
        for tried, server in enumerate(servers):
            try:
                await self.refresh(server.node_id, deadline.sooner(deadline.left() / (len(servers) - tried)))
            except SourceError as error:
                reasons.append(f"{server.host}:{server.port}: {error}")
            else:
                session.manager.close(server.node_id)  # from here on brokers are asked by their own numbers
                return
        raise SourceError("no broker answered (" + "; ".join(reasons) + ")")


async def _wait_while_throttled(session: Session, connection: Any, deadline: Deadline) -> None:
    """A broker over its quota asks to be left alone for a while; a send before that fails at once."""
    while connection.connected and connection.paused:
        if deadline.left() <= 0:
            raise SourceError("the broker throttles this client (a quota) for longer than the poll may take")
        await session.loop.sleep(min(_LOOK_AGAIN_SECONDS, deadline.left()))


def _client_options(options: ConnectionOptions) -> dict[str, Any]:
    # Without a password OpenSSL asks the terminal for that of an encrypted key, and waits; an empty one is just wrong.
    return {**options.client, "ssl_password": options.client.get("ssl_password") or ""}


def tls_context(options: ConnectionOptions) -> ssl.SSLContext:
    """The rules by which brokers' certificates are judged. Raises OSError (ssl.SSLError is one) for unusable files."""
    given = {key: value for key, value in _client_options(options).items() if key in KafkaSSLTransport.DEFAULT_CONFIG}
    context: ssl.SSLContext = KafkaSSLTransport._build_ssl_context(  # noqa: SLF001  # the same rules, not a copy of them
        KafkaSSLTransport.DEFAULT_CONFIG | given
    )
    return context


def reason_in_words(error: BaseException, seconds: float) -> str:
    """Why a broker could not be asked, in words an operator can act on; never with a secret in them."""
    text = str(error)
    if isinstance(error, kafka.errors.KafkaTimeoutError | kafka.errors.RequestTimedOutError) or "timed out" in text:
        return f"no answer within {seconds:.1f} s"
    if isinstance(error, kafka.errors.SaslAuthenticationFailedError):
        return f"SASL authentication failed: {text.rpartition('Error: ')[2]}"
    for kind, words in _SAID_BY_TYPE.items():
        if isinstance(error, kind):
            return words
    if isinstance(error, ssl.SSLError):  # connections wrap theirs: this one is of the files
        return f"a certificate or key file cannot be used: {_TLS_NOISE.sub('', text)}"
    if "ECONNREFUSED" in text:
        return "connection refused"
    if "DNS" in text:
        return "the host name does not resolve"
    if "Handshake failed" in text:
        return f"TLS handshake failed: {_TLS_NOISE.sub('', text.partition('Handshake failed: ')[2])}"
    if isinstance(error, kafka.errors.KafkaConnectionError):
        why = _TLS_NOISE.sub("", text.removeprefix("KafkaConnectionError").removeprefix(": "))
        return f"connection lost: {why}" if why else "connection lost"
    return f"{type(error).__name__.removesuffix('Error')}: {text}" if text else type(error).__name__

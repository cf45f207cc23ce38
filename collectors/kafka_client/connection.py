"""One job's connections to a cluster: opened on first use, reopened after a run that failed.

The job passes a coroutine, which runs on the I/O thread of a session, and waits for it with a deadline.
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

from collectors.kafka_client import requests
from collectors.kafka_client.connection_interface import Deadline
from collectors.kafka_client.session import CLOSED, Session
from lagwatch.errors import SourceError

T = TypeVar("T")

_GRACE_SECONDS = 1.0  # for the loop to notice the deadline before the waiting thread gives up
_THROTTLE_POLL_SECONDS = 0.02
_REASON_BY_TYPE: Mapping[type[Exception], str] = {
    kafka.errors.UnsupportedSaslMechanismError: "the broker does not offer this SASL mechanism",
    kafka.errors.IllegalSaslStateError: "the broker does not use SASL on this port",
    kafka.errors.InvalidReceiveError: "the response is not in Kafka's protocol: the port may speak TLS",
    kafka.errors.IncompatibleBrokerVersion: "the broker does not support this request; lagwatch needs Kafka 2.8 or later",
}
_TLS_NOISE = re.compile(r"\[SSL[^\]]*\] | \(_ssl\.c:\d+\)")


@dataclass(frozen=True, slots=True)
class ConnectionOptions:
    """How to reach a cluster. `client` holds kafka-python's security options, secrets included, so it has no repr."""

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
    """Sends requests to the brokers of one cluster, for one thread at a time; any thread may close it."""

    def __init__(self, options: ConnectionOptions) -> None:
        self._options = options
        self._closing = threading.Lock()  # so that no session starts after `close`
        self._closed = False
        self._session: Session | None = None
        self._reasons: dict[Any, str] = {}  # by broker, why the last request failed

    def run(self, work: Callable[[Deadline], Coroutine[Any, Any, T]], seconds: float) -> T:
        """Run the coroutine on the I/O thread, connecting first if needed. Raises SourceError; blocks `seconds` at most.

        After a failure the brokers may have new addresses, so the next run starts from the bootstrap servers.
        """
        deadline = Deadline.after(seconds)
        session = self._session
        try:
            if session is None:
                session = self._start_session(deadline)
                session.run(lambda: self._bootstrap(session, deadline), deadline.remaining() + _GRACE_SECONDS)
            return session.run(lambda: work(deadline), deadline.remaining() + _GRACE_SECONDS)
        except BaseException:
            self._end_session()
            raise

    async def request(self, node: int | str, request: Any, deadline: Deadline) -> Any:
        """Send one request to one broker. Raises SourceError with a reason for operators."""
        session = self._current_session()
        if session is None:
            raise SourceError(CLOSED)
        manager = session.manager
        seconds = deadline.remaining()
        if seconds <= 0:
            raise SourceError("no time left in this poll")
        # kafka-python never retries a broker that once refused the password, which may have been rotated since.
        manager._auth_failures.pop(node, None)  # noqa: SLF001
        try:
            connection = manager.get_connection(node, timeout_ms=seconds * 1000, refresh_metadata_on_err=False)
            await _wait_while_throttled(session, connection, deadline)
            response = await manager.wait_for(
                connection.send_request(request, request_timeout_ms=seconds * 1000), seconds * 1000
            )
        except SourceError:
            raise
        except kafka.errors.NodeNotReadyError as error:
            raise SourceError(self._reasons.get(node) or describe_error(error, seconds)) from None
        except Exception as error:  # noqa: BLE001  # sockets, TLS, SASL and the decoder raise different types
            self._reasons[node] = describe_error(error, seconds)
            raise SourceError(self._reasons[node]) from None
        self._reasons.pop(node, None)
        return response

    async def gather(self, works: Sequence[Coroutine[Any, Any, T]]) -> list[T | SourceError]:
        """Run coroutines concurrently on the loop; each yields its result or its own SourceError."""
        session = self._current_session()
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
        """Whether the brokers support this request in a version we can use."""
        session = self._current_session()
        versions = session.manager.broker_version_data if session else None
        if versions is None:
            return False
        try:
            versions.api_version(request)
        except (ValueError, kafka.errors.IncompatibleBrokerVersion):
            return False
        return True

    def nodes(self) -> list[int]:
        """The ids of the brokers in the latest metadata."""
        return sorted(self.addresses())

    def addresses(self) -> dict[int, tuple[str, int]]:
        """Host and port by broker id."""
        session = self._current_session()
        brokers = session.manager.cluster.brokers() if session else []
        return {broker.node_id: (broker.host, broker.port) for broker in brokers}

    async def refresh(self, node: int | str, deadline: Deadline) -> None:
        """Update the brokers' addresses from the metadata of one broker. Raises SourceError.

        kafka-python's own refresh waits 30 s for a hung broker and makes all other callers wait for the same response.
        """
        response = await self.request(node, requests.brokers_request(), deadline)
        session = self._current_session()
        if session is None:
            raise SourceError(CLOSED)
        if not response.brokers:
            raise SourceError("the broker lists no brokers: it may still be starting")
        session.manager.cluster.update_metadata(response)

    def close(self) -> None:
        """Close permanently. A run in progress, or connecting, fails at once."""
        with self._closing:
            self._closed = True
        self._end_session()

    def _current_session(self) -> Session | None:
        """The session on whose thread this runs, even if it was replaced meanwhile; on other threads the newest."""
        return Session.current() or self._session

    def _start_session(self, deadline: Deadline) -> Session:
        with self._closing:
            if self._closed:
                raise SourceError(CLOSED)
            try:
                self._session = Session(self._options.client_id, self._manager_options())
            except Exception as error:  # noqa: BLE001  # unreadable certificates, malformed addresses
                raise SourceError(describe_error(error, deadline.remaining())) from None
            return self._session

    def _end_session(self) -> None:
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
            "reconnect_backoff_max_ms": 1000,  # a restarted broker is polled at once, not 30 s later
            "max_in_flight_requests_per_connection": 1000,  # above it a send fails at once instead of waiting
            **client,
        }

    async def _bootstrap(self, session: Session, deadline: Deadline) -> None:
        """Connect to the first bootstrap server that responds. kafka-python's own bootstrap drops the reasons of failure."""
        servers = session.manager.cluster.bootstrap_brokers()
        reasons = []
        for tried, server in enumerate(servers):
            try:
                await self.refresh(server.node_id, deadline.at_most(deadline.remaining() / (len(servers) - tried)))
            except SourceError as error:
                reasons.append(f"{server.host}:{server.port}: {error}")
            else:
                session.manager.close(server.node_id)  # from now on brokers are addressed by id
                return
        raise SourceError("no broker answered (" + "; ".join(reasons) + ")")


async def _wait_while_throttled(session: Session, connection: Any, deadline: Deadline) -> None:
    """Wait out a throttle time: a send before it ends fails at once."""
    while connection.connected and connection.paused:
        if deadline.remaining() <= 0:
            raise SourceError("the broker throttles this client (quota) for longer than the poll may take")
        await session.loop.sleep(min(_THROTTLE_POLL_SECONDS, deadline.remaining()))


def _client_options(options: ConnectionOptions) -> dict[str, Any]:
    # Without a password OpenSSL prompts on the terminal for that of an encrypted key; an empty one just fails.
    return {**options.client, "ssl_password": options.client.get("ssl_password") or ""}


def tls_context(options: ConnectionOptions) -> ssl.SSLContext:
    """The TLS context of the connections. Raises OSError (ssl.SSLError is one) for unusable files."""
    given = {key: value for key, value in _client_options(options).items() if key in KafkaSSLTransport.DEFAULT_CONFIG}
    context: ssl.SSLContext = KafkaSSLTransport._build_ssl_context(  # noqa: SLF001  # the very context kafka-python uses
        KafkaSSLTransport.DEFAULT_CONFIG | given
    )
    return context


def describe_error(error: BaseException, seconds: float) -> str:
    """Why a request failed, in terms an operator can act on; never contains a secret."""
    text = str(error)
    if isinstance(error, kafka.errors.KafkaTimeoutError | kafka.errors.RequestTimedOutError) or "timed out" in text:
        return f"no answer within {seconds:.1f} s"
    if isinstance(error, kafka.errors.SaslAuthenticationFailedError):
        return f"SASL authentication failed: {text.rpartition('Error: ')[2]}"
    for kind, reason in _REASON_BY_TYPE.items():
        if isinstance(error, kind):
            return reason
    if isinstance(error, ssl.SSLError):  # connection errors are wrapped: this one is about the files
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

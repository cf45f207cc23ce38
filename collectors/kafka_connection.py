"""One cluster's connections: opened on first use, shared by all jobs of the cluster, renewed when nobody answers.

An I/O thread of its own drives kafka-python's event loop; jobs hand it coroutines and wait for them with a deadline.
Beside kafka_wire.py this is the only file that knows kafka-python.
"""

from __future__ import annotations

import re
import ssl
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import kafka.errors
from kafka.net.inet import KafkaNetSocket
from kafka.net.manager import KafkaConnectionManager
from kafka.net.sasl.oauth import AbstractTokenProvider
from kafka.net.selector import NetworkSelector
from kafka.net.transport import KafkaSSLTransport

from lagwatch.errors import SourceError

T = TypeVar("T")

_GRACE_SECONDS = 1.0  # for the loop to notice its own deadline before the waiting thread gives up on it
_STOP_MS = 2000
_LOOK_AGAIN_SECONDS = 0.02
_CLOSED = "the connection was closed"
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


@dataclass(frozen=True, slots=True)
class Deadline:
    """A moment of the monotonic clock by which all of a poll must be done."""

    at: float

    @classmethod
    def after(cls, seconds: float) -> Deadline:
        return cls(time.monotonic() + seconds)

    def left(self) -> float:
        """Seconds left, never below zero."""
        return max(0.0, self.at - time.monotonic())

    def sooner(self, seconds: float) -> Deadline:
        """This deadline, or the one so many seconds from now if that is earlier."""
        return Deadline(min(self.at, time.monotonic() + seconds))


class _TokenProvider(AbstractTokenProvider):  # type: ignore[misc]
    def __init__(self, token: Callable[[], str]) -> None:
        self._token = token

    def token(self) -> str:
        return self._token()


class _Manager(KafkaConnectionManager):  # type: ignore[misc]
    """Hears a broker out. kafka-python drops what comes in together with the end of a connection.

    A broker that refuses a password says so and hangs up; mostly both arrive at once, and the reason was lost.
    """

    async def _build_transport(self, node: Any, timeout_at: float | None = None) -> Any:
        transport = await super()._build_transport(node, timeout_at=timeout_at)
        receive = transport._sock_recv  # noqa: SLF001

        def receive_all() -> tuple[bytes, Exception | None]:
            data, error = receive()
            return data, None if data else error  # the end is read again, next

        transport._sock_recv = receive_all  # noqa: SLF001
        return transport


class _TidySocket(KafkaNetSocket):  # type: ignore[misc]
    """kafka-python leaves a socket that could not connect to the garbage collector; this closes it.

    Its connections are chosen by the scheme of a proxy address, so a scheme of our own stands for "no proxy".
    """

    SCHEMES = ("direct",)
    ADDRESS = "direct://"

    async def connect(self, net: Any, addrinfo: Any, socket_options: Any = (), timeout_at: float | None = None) -> Any:
        family, kind, protocol, _, address = addrinfo
        sock = self.socket(family, kind, protocol)
        try:
            sock.setblocking(False)
            for option in socket_options:
                sock.setsockopt(*option)
            return await self.sock_connect(net, sock, address, timeout_at=timeout_at)
        except BaseException:
            sock.close()
            raise


class _Waiter(Generic[T]):
    """A thread that waits for the loop to finish its work."""

    def __init__(self) -> None:
        self.done = threading.Event()
        self.result: T | None = None
        self.error: BaseException | None = None


class KafkaConnection:
    """Asks brokers of one cluster. Safe to use from several threads."""

    def __init__(self, options: ConnectionOptions) -> None:
        self._options = options
        self._opening = threading.Lock()
        self._dropping = threading.Lock()
        self._closed = False
        self._loop: NetworkSelector | None = None
        self._manager: KafkaConnectionManager | None = None
        self._reasons: dict[Any, str] = {}  # why a broker could last not be reached
        self._waiting: set[_Waiter[Any]] = set()

    def run(self, work: Callable[[Deadline], Coroutine[Any, Any, T]], seconds: float) -> T:
        """Run the coroutine on the I/O thread, connecting first if need be. Raises SourceError; blocks `seconds` at most."""
        deadline = Deadline.after(seconds)
        if not self._opening.acquire(timeout=seconds):
            raise SourceError("another job is still connecting")
        try:
            if self._closed:
                raise SourceError(_CLOSED)
            if self._manager is None:
                self._open(deadline)
        finally:
            self._opening.release()
        return self._on_loop(lambda: work(deadline), deadline)

    async def ask(self, node: int | str, request: Any, deadline: Deadline) -> Any:
        """One request to one broker. Raises SourceError with the reason in words."""
        manager = self._manager
        if manager is None:
            raise SourceError(_CLOSED)
        seconds = deadline.left()
        if seconds <= 0:
            raise SourceError("no time was left in this poll")
        # kafka-python never tries a broker again that once refused the password; ours may have been rotated since.
        manager._auth_failures.pop(node, None)  # noqa: SLF001
        try:
            connection = manager.get_connection(node, timeout_ms=seconds * 1000, refresh_metadata_on_err=False)
            await self._wait_while_throttled(connection, deadline)
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

    async def _wait_while_throttled(self, connection: Any, deadline: Deadline) -> None:
        """A broker over its quota asks to be left alone for a while; a send before that fails at once."""
        while connection.connected and connection.paused:
            if deadline.left() <= 0 or self._loop is None:
                raise SourceError("the broker throttles this client (a quota) for longer than the poll may take")
            await self._loop.sleep(min(_LOOK_AGAIN_SECONDS, deadline.left()))

    async def gather(self, works: Sequence[Coroutine[Any, Any, T]]) -> list[T | SourceError]:
        """Run coroutines side by side on the loop; each yields its result or its own SourceError."""
        manager = self._manager
        if manager is None:
            for work in works:
                work.close()
            return [SourceError(_CLOSED)] * len(works)
        futures = [manager.call_soon(work) for work in works]
        results: list[T | SourceError] = []
        for future in futures:
            try:
                results.append(await future)
            except SourceError as error:
                results.append(error)
        return results

    def supports(self, request: Any) -> bool:
        """Whether the cluster's brokers know this request in a version we can use."""
        try:
            self._manager.broker_version_data.api_version(request)  # type: ignore[union-attr]
        except (AttributeError, ValueError, kafka.errors.IncompatibleBrokerVersion):
            return False
        return True

    def nodes(self) -> list[int]:
        """Brokers the connections know how to reach."""
        return sorted(broker.node_id for broker in self._manager.cluster.brokers()) if self._manager else []

    def addresses(self) -> dict[int, tuple[str, int]]:
        """Where each of them is."""
        brokers = self._manager.cluster.brokers() if self._manager else []
        return {broker.node_id: (broker.host, broker.port) for broker in brokers}

    async def refresh(self, node: int | str, deadline: Deadline) -> None:
        """Learn the brokers' addresses anew from one that answers. Raises SourceError."""
        if self._manager is None:
            raise SourceError(_CLOSED)
        try:
            future = self._manager.call_soon(self._manager.cluster.refresh_metadata, node)
            await self._manager.wait_for(future, deadline.left() * 1000)
        except Exception as error:  # noqa: BLE001  # as in ask
            raise SourceError(reason_in_words(error, deadline.left())) from None

    def reset(self) -> None:
        """Forget all connections, so that the next use starts from the bootstrap servers."""
        self._drop()

    def close(self) -> None:
        """Close for good. Work that is under way, connecting too, fails at once."""
        self._closed = True
        self._drop()

    def _open(self, deadline: Deadline) -> None:
        client = _client_options(self._options)
        if self._options.oauth_token is not None:
            client["sasl_oauth_token_provider"] = _TokenProvider(self._options.oauth_token)
        self._loop = NetworkSelector(client_id=self._options.client_id, slow_task_threshold_secs=0)
        self._loop.start()
        try:
            self._manager = _Manager(
                self._loop,
                bootstrap_servers=list(self._options.bootstrap),
                client_id=self._options.client_id,
                proxy_url=_TidySocket.ADDRESS,
                receive_message_max_bytes=self._options.receive_max_bytes,
                reconnect_backoff_max_ms=1000,  # a broker that is back is asked in the next poll, not 30 s later
                max_in_flight_requests_per_connection=1000,  # over it a send fails at once instead of waiting
                **client,
            )
            self._on_loop(lambda: self._bootstrap(deadline), deadline)
        except BaseException as error:
            self._drop()
            if isinstance(error, SourceError) or not isinstance(error, Exception):
                raise
            raise SourceError(reason_in_words(error, deadline.left())) from None

    async def _bootstrap(self, deadline: Deadline) -> None:
        """kafka-python's own bootstrap drops the reason why nobody answered; this keeps it."""
        manager: Any = self._manager
        servers = manager.cluster.bootstrap_brokers()
        reasons = []
        for tried, server in enumerate(servers):
            seconds = deadline.left() / (len(servers) - tried)
            try:
                connection = manager.get_connection(
                    server.node_id, timeout_ms=seconds * 1000, refresh_metadata_on_err=False
                )
                await manager.wait_for(connection.init_future, seconds * 1000)
                refreshed = manager.call_soon(manager.cluster.refresh_metadata, server.node_id)
                await manager.wait_for(refreshed, max(deadline.left(), 0.1) * 1000)
            except Exception as error:  # noqa: BLE001  # as in ask
                reasons.append(f"{server.host}:{server.port}: {reason_in_words(error, seconds)}")
            else:
                manager.close(server.node_id)  # from here on brokers are asked by their own numbers
                return
        raise SourceError("no broker answered (" + "; ".join(reasons) + ")")

    def _on_loop(self, work: Callable[[], Awaitable[T]], deadline: Deadline) -> T:
        loop = self._loop
        if loop is None:
            raise SourceError(_CLOSED)
        waiter: _Waiter[T] = _Waiter()

        async def task() -> None:
            try:
                waiter.result = await work()
            except BaseException as error:  # noqa: BLE001  # handed to the waiting thread below
                waiter.error = error
            finally:
                waiter.done.set()

        self._waiting.add(waiter)
        try:
            loop.call_soon_threadsafe(task)
            if not waiter.done.wait(deadline.left() + _GRACE_SECONDS):
                raise SourceError("the event loop hangs; a name server that does not answer can cause this")
        except RuntimeError:
            raise SourceError(_CLOSED) from None
        finally:
            self._waiting.discard(waiter)
        if waiter.error is not None:
            raise waiter.error
        return waiter.result  # type: ignore[return-value]  # set whenever there is no error

    def _drop(self) -> None:
        with self._dropping:  # not the lock of opening: that may be held by the very attempt to be ended
            manager, loop = self._manager, self._loop
            self._manager = self._loop = None
        if loop is None:
            return
        for waiter in list(self._waiting):
            waiter.error = SourceError(_CLOSED)
            waiter.done.set()
        if manager is not None:
            loop.call_soon_threadsafe(manager.close)
        loop.stop(timeout_ms=_STOP_MS)
        loop.close()


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

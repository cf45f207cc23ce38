"""Runs kafka-python's event loop on a dedicated thread; one session per connect or reconnect."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from socket import socket
from typing import Any, Generic, TypeVar
from weakref import WeakSet

from kafka.future import Future
from kafka.net.inet import KafkaNetSocket
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector

from lagwatch.errors import SourceError

T = TypeVar("T")

CLOSED = "the connection was closed"
_END_SECONDS = 2.0
_thread_local = threading.local()


class _Manager(KafkaConnectionManager):  # type: ignore[misc]
    """Delivers data that arrives together with the end of a connection, which kafka-python drops.

    A broker that refuses a password sends the reason and closes the connection; usually both arrive at once.
    """

    async def _build_transport(self, node: Any, timeout_at: float | None = None) -> Any:
        transport = await super()._build_transport(node, timeout_at=timeout_at)
        receive = transport._sock_recv  # noqa: SLF001

        def receive_all() -> tuple[bytes, Exception | None]:
            data, error = receive()
            return data, None if data else error  # the next receive returns the end again

        transport._sock_recv = receive_all  # noqa: SLF001
        return transport


class ClosingSocket(KafkaNetSocket):  # type: ignore[misc]
    """Closes a socket that failed to connect or was interrupted; kafka-python leaves it to the garbage collector.

    kafka-python selects the socket class by the scheme of the proxy URL, so `direct://` means "no proxy".
    """

    SCHEMES = ("direct",)
    ADDRESS = "direct://"

    async def connect(self, net: Any, addrinfo: Any, socket_options: Any = (), timeout_at: float | None = None) -> Any:
        family, kind, protocol, _, address = addrinfo
        sock = self.socket(family, kind, protocol)
        session = Session.current()
        if session is not None:
            session.sockets.add(sock)
        try:
            sock.setblocking(False)
            for option in socket_options:
                sock.setsockopt(*option)
            return await self.sock_connect(net, sock, address, timeout_at=timeout_at)
        except BaseException:
            sock.close()
            raise


class PendingResult(Generic[T]):
    """The result a thread waits for while the loop runs its coroutine. Only the first outcome counts.

    The end of a session is one; the coroutine then fails as well, since its connections are lost.
    """

    def __init__(self) -> None:
        self.done = threading.Event()
        self.result: T | None = None
        self.error: BaseException | None = None
        self._lock = threading.Lock()

    def succeed(self, result: T) -> None:
        """Set the result."""
        with self._lock:
            if not self.done.is_set():
                self.result = result
                self.done.set()

    def fail(self, error: BaseException) -> None:
        """Set the error."""
        with self._lock:
            if not self.done.is_set():
                self.error = error
                self.done.set()


class Session:
    """An event loop, its thread and its connections. One thread at a time may call `run`; any may call `end`."""

    def __init__(self, client_id: str, options: Mapping[str, Any]) -> None:
        """Starts the thread without connecting; raises what kafka-python raises for invalid options."""
        self.loop = NetworkSelector(client_id=client_id, slow_task_threshold_secs=0)
        try:
            self.manager = _Manager(self.loop, client_id=client_id, proxy_url=ClosingSocket.ADDRESS, **options)
        except BaseException:
            self.loop.close()
            raise
        self.sockets: WeakSet[socket] = WeakSet()  # all open sockets, to be closed with the loop
        self._pending: PendingResult[Any] | None = None
        self._ended = Future()
        self._thread = threading.Thread(target=self._run_loop, name=f"kafka-io-{client_id}", daemon=True)
        self._thread.start()

    @staticmethod
    def current() -> Session | None:
        """The session on whose thread the caller runs, if any."""
        return getattr(_thread_local, "session", None)

    def run(self, work: Callable[[], Awaitable[T]], seconds: float) -> T:
        """Run the coroutine and return its result. Raises its error, or SourceError if the loop has ended or hangs."""
        pending: PendingResult[T] = PendingResult()

        async def task() -> None:
            try:
                pending.succeed(await work())
            except BaseException as error:  # noqa: BLE001  # raised in the waiting thread below
                pending.fail(error)

        self._pending = pending
        try:
            self.loop.call_soon_threadsafe(task)
            if not pending.done.wait(seconds):
                raise SourceError("the event loop hangs, perhaps on a DNS server that does not respond")
        except RuntimeError:  # the loop has ended
            raise SourceError(CLOSED) from None
        if isinstance(pending.error, GeneratorExit):  # interrupted because the loop has ended
            raise SourceError(CLOSED)
        if pending.error is not None:
            raise pending.error
        return pending.result  # type: ignore[return-value]  # set whenever there is no error

    def end(self) -> None:
        """End the loop and its thread; a run in progress fails at once. Blocks two seconds at most."""
        self._fail_pending()
        with suppress(RuntimeError):  # it has ended already
            self.loop.call_soon_threadsafe(self._close)
        self._thread.join(_END_SECONDS)

    def _run_loop(self) -> None:
        """The thread's body: the loop runs and closes only here, so it cannot be in use while it is closed."""
        _thread_local.session = self
        try:
            self.loop.poll(future=self._ended)
        finally:
            self.loop.close()
            for opened in list(self.sockets):
                opened.close()
            self._fail_pending()

    def _fail_pending(self) -> None:
        if self._pending is not None:
            self._pending.fail(SourceError(CLOSED))

    def _close(self) -> None:
        self.manager.close()
        if not self._ended.is_done:
            self._ended.success(None)

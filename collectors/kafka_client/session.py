"""One life of a job's connections: kafka-python's event loop on a thread of its own, and who waits for it."""

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
_of_this_thread = threading.local()


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
    """kafka-python leaves a socket that could not connect, or was about to, to the garbage collector; this closes it.

    Its connections are chosen by the scheme of a proxy address, so a scheme of our own stands for "no proxy".
    """

    SCHEMES = ("direct",)
    ADDRESS = "direct://"

    async def connect(self, net: Any, addrinfo: Any, socket_options: Any = (), timeout_at: float | None = None) -> Any:
        family, kind, protocol, _, address = addrinfo
        sock = self.socket(family, kind, protocol)
        session = Session.here()
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


class _Waiter(Generic[T]):
    """A thread that waits for the loop to finish its work."""

    def __init__(self) -> None:
        self.done = threading.Event()
        self.result: T | None = None
        self.error: BaseException | None = None


class Session:
    """An event loop, its thread and the connections on it. One thread runs work on it at a time; any may end it."""

    def __init__(self, client_id: str, options: Mapping[str, Any]) -> None:
        """Connects to nobody; raises what kafka-python raises for options it cannot use."""
        self.loop = NetworkSelector(client_id=client_id, slow_task_threshold_secs=0)
        try:
            self.manager = _Manager(self.loop, client_id=client_id, proxy_url=_TidySocket.ADDRESS, **options)
        except BaseException:
            self.loop.close()
            raise
        self.sockets: WeakSet[socket] = WeakSet()  # all that were opened, to be closed with the loop
        self._waiter: _Waiter[Any] | None = None
        self._over = Future()
        self._thread = threading.Thread(target=self._live, name=f"kafka-io-{client_id}", daemon=True)
        self._thread.start()

    @staticmethod
    def here() -> Session | None:
        """The session on whose thread the caller runs."""
        return getattr(_of_this_thread, "session", None)

    def run(self, work: Callable[[], Awaitable[T]], seconds: float) -> T:
        """What the coroutine gives, or the error it raises; SourceError when the loop has ended or hangs."""
        waiter: _Waiter[T] = _Waiter()

        async def task() -> None:
            try:
                waiter.result = await work()
            except BaseException as error:  # noqa: BLE001  # handed to the waiting thread below
                waiter.error = error
            finally:
                waiter.done.set()

        self._waiter = waiter
        try:
            self.loop.call_soon_threadsafe(task)
            if not waiter.done.wait(seconds):
                raise SourceError("the event loop hangs; a name server that does not answer can cause this")
        except RuntimeError:  # the loop has ended
            raise SourceError(CLOSED) from None
        if isinstance(waiter.error, GeneratorExit):  # cut off where it stood, for the loop has ended
            raise SourceError(CLOSED)
        if waiter.error is not None:
            raise waiter.error
        return waiter.result  # type: ignore[return-value]  # set whenever there is no error

    def end(self) -> None:
        """Work under way fails at once. Blocks until the thread has ended, two seconds at most."""
        self._fail_waiter()
        with suppress(RuntimeError):  # it has ended already
            self.loop.call_soon_threadsafe(self._close)
        self._thread.join(_END_SECONDS)

    def _live(self) -> None:
        """All of the thread: the loop is driven and closed here alone, so nothing else can be in it then."""
        _of_this_thread.session = self
        try:
            self.loop.poll(future=self._over)
        finally:
            self.loop.close()
            for opened in list(self.sockets):
                opened.close()
            self._fail_waiter()

    def _fail_waiter(self) -> None:
        waiter = self._waiter
        if waiter is not None and not waiter.done.is_set():
            waiter.error = SourceError(CLOSED)
            waiter.done.set()

    def _close(self) -> None:
        self.manager.close()
        if not self._over.is_done:
            self._over.success(None)

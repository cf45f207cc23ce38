"""The one JVM behind all JMX of an agent: an address enters, a connection to its beans leaves.

No Java of ours is needed: the JDK's own classes are called through py4j, and only this file knows py4j. The JVM listens
on loopback behind a token made for this run, ends when this process ends in any way, and is started again when it died.
Secrets go over that socket, never on a command line.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import jmxquery
from py4j.java_gateway import GatewayClient, GatewayConnection, GatewayParameters, JavaGateway, find_jar_path
from py4j.protocol import Py4JError, Py4JJavaError

from collectors.jmx_client.errors import error_words
from collectors.jmx_client.jvm import GatewayOptions, end, launch
from collectors.jmx_client.method_handles import MethodHandles
from collectors.jmx_client.parsing import BeanAnswer, BeanQuery, parse_attributes, parse_info, parse_names
from collectors.jmx_client.tls import use_certificates
from lagwatch.errors import SourceError

log = logging.getLogger(__name__)

# py4j logs every command, passwords included, and errors in part on the root logger: what matters is told by us, in words.
logging.getLogger("py4j").setLevel(logging.CRITICAL + 1)
logging.getLogger().addFilter(lambda record: "py4j" not in record.pathname)

_CLOSE_SECONDS = 3.0
_BETWEEN = "\x1e"  # ASCII's own record separator: in no bean's name and in no value
_MOST_LISTS, _MOST_QUESTIONS = 200, 50_000
_STUB = re.compile(r"endpoint:\[(.*?):(\d+)[,\]]")


@dataclass(frozen=True, slots=True)
class RmiAddress:
    """Where a JVM's JMX is, and who asks. `registry_tls`: its RMI registry speaks TLS too."""

    host: str
    port: int
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    registry_tls: bool = False


class JmxGateway:
    """Starts its JVM at the first connection. Safe to use from several threads, whose calls run side by side."""

    def __init__(self, options: GatewayOptions | None = None) -> None:
        self._options = options or GatewayOptions()
        self._lock = threading.Lock()
        self._jvm: _Jvm | None = None
        self._closed = False

    @property
    def pid(self) -> int | None:
        """The process id of the JVM; None while there is none."""
        jvm = self._jvm
        return jvm.process.pid if jvm is not None and jvm.alive else None

    def connect(self, address: RmiAddress) -> RmiConnection:
        """A connection to the beans at an address. Raises SourceError; blocks for a few times the RMI time limit."""
        return RmiConnection(self._running(), address)

    def stub_of(self, address: RmiAddress) -> tuple[str, int] | None:
        """Where the registry at an address says that the JVM is: clients go there next. Raises SourceError."""
        jvm = self._running()
        with jvm.translated():
            return _stub_address(str(_look_up(jvm, address).toString()))

    def parse_query(self, query: str) -> tuple[str, str | None, str | None]:
        """Bean, attribute and key of a query in jmxquery's words, `bean/attribute/key`. Raises SourceError."""
        jvm = self._running()
        with jvm.translated():
            metric = jvm.java.com.outlyer.jmx.jmxquery.JMXMetric(query)
            return metric.getmBeanName(), metric.getAttribute(), metric.getAttributeKey()

    def close(self) -> None:
        """End the JVM; calls that are out fail. One that is just being started ends with this process."""
        self._closed = True
        if not self._lock.acquire(timeout=_CLOSE_SECONDS):
            return
        try:
            if self._jvm is not None:
                self._jvm.close()
                self._jvm = None
        finally:
            self._lock.release()

    def _running(self) -> _Jvm:
        with self._lock:
            if self._closed:
                raise SourceError("the JMX gateway was closed")
            if self._jvm is not None and not self._jvm.alive:
                self._jvm.close()
                log.warning("JMX gateway ended with code %s; starting it again", self._jvm.process.returncode)
                self._jvm = None
            if self._jvm is None:
                self._jvm = _Jvm(self._options)
            if self._closed:  # while it was being started
                self._jvm.close()
            return self._jvm


class _TidyClient(GatewayClient):  # type: ignore[misc]
    """py4j leaves a socket that could not connect, to a JVM that died, to the garbage collector; this closes it."""

    def _create_connection(self) -> Any:
        connection = GatewayConnection(self.gateway_parameters, self.gateway_property)
        try:
            connection.start()
        except BaseException:
            connection.socket.close()
            raise
        return connection


class _TidyGateway(JavaGateway):  # type: ignore[misc]
    def _create_gateway_client(self) -> Any:
        return _TidyClient(gateway_parameters=self.gateway_parameters)


class _Jvm:
    """One life of the JVM, with the objects in it that every connection shares."""

    def __init__(self, options: GatewayOptions) -> None:
        port, token, self.process = launch(options, (find_jar_path(), jmxquery.JAR_PATH))
        self.broken = False  # it no longer answers as it should; a process just killed may still look alive
        try:
            self._gateway = _TidyGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token))
        except BaseException:
            end(self.process)
            raise
        self.java = self._gateway.jvm
        self._questions: dict[BeanQuery, Any] = {}
        self._names: dict[tuple[str, ...], Any] = {}
        try:
            with self.translated():
                self.handles = MethodHandles(self.java, self.array)
                if options.trusts or options.own:
                    use_certificates(self.java, self.array, options.trusts, options.own)
        except BaseException:
            self.close()
            raise
        log.debug("JMX gateway started pid=%d", self.process.pid)

    @property
    def alive(self) -> bool:
        return not self.broken and self.process.poll() is None

    def close(self) -> None:
        client = self._gateway._gateway_client  # noqa: SLF001
        client.is_connected = False  # or every object of ours would try, when it is collected, to tell the dead JVM
        with suppress(Exception):
            self._gateway.close()
        end(self.process)

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Errors become SourceError in words. Java's stack traces and py4j's texts stay here: they hold what was passed."""
        try:
            yield
        except Py4JJavaError as error:
            words = error_words(_chain(error.java_exception))
        except (Py4JError, OSError):
            self.broken = True
            words = "the JVM that carries JMX ended; it is started again with the next poll"
        else:
            return
        raise SourceError(words) from None

    def array(self, kind: Any, *items: Any) -> Any:
        made = self._gateway.new_array(kind, len(items))
        for place, item in enumerate(items):
            made[place] = item
        return made

    def names(self, names: tuple[str, ...]) -> Any:
        """Names as a list in the JVM; made once, for all endpoints."""
        found = self._names.get(names)
        if found is None:
            if len(self._names) > _MOST_LISTS:
                self._names.clear()  # names that come and go must not fill the JVM
            found = self.java.java.util.ArrayList()
            for name in names:
                found.add(name)
            self._names[names] = found  # only when it is whole: other threads look here too
        return found

    def question(self, question: BeanQuery) -> Any:
        """The question as an array in the JVM; made once, for all endpoints."""
        found = self._questions.get(question)
        if found is None:
            if len(self._questions) > _MOST_QUESTIONS:
                self._questions.clear()
            names = self.array(self.java.java.lang.String, *question.attributes)
            found = self._questions[question] = self.array(self.java.java.lang.Object, question.bean, names)
        return found

    def joined(self, objects: Any, change: Any) -> str:
        """What `change` makes of each of these, as one string."""
        copy = self.java.java.util.ArrayList(objects)
        copy.replaceAll(change)
        return str(self.java.java.lang.String.join(_BETWEEN, copy))


class RmiConnection:
    """The beans of one JVM over RMI. Made by `JmxGateway.connect`; used by one thread at a time."""

    def __init__(self, jvm: _Jvm, address: RmiAddress) -> None:
        self._jvm = jvm
        self._asked: tuple[BeanQuery, ...] = ()
        self._list: Any = None
        java = jvm.java
        with jvm.translated():
            stub = _look_up(jvm, address)
            options = java.java.util.HashMap()
            options.put("jmx.remote.x.client.connection.check.period", 0)  # or it keeps a thread for each connection
            if address.username is not None:
                login = jvm.array(java.java.lang.String, address.username, address.password or "")
                options.put("jmx.remote.credentials", login)
            self._connector = java.javax.management.remote.rmi.RMIConnector(stub, options)
            self._connector.connect()
            self._beans = self._connector.getMBeanServerConnection()
            self._asker = jvm.handles.asker(self._beans)
            self._namer, self._describer = jvm.handles.namer(self._beans), jvm.handles.describer(self._beans)

    def names(self, patterns: Sequence[str]) -> list[list[str]]:
        """For each pattern the beans whose name matches, sorted."""
        texts = self._texts(patterns, self._namer)
        wrong = [text for text in texts if not text.startswith("[")]
        if wrong:
            raise SourceError(f"JMX does not take a pattern: {' '.join(wrong)[:200]}")
        return [parse_names(text) for text in texts]

    def attributes(self, beans: Sequence[str]) -> list[list[str]]:
        """For each bean the attributes that can be read, sorted; none for one that is not there."""
        return [parse_info(text) for text in self._texts(beans, self._describer)]

    def read(self, questions: Sequence[BeanQuery]) -> list[BeanAnswer]:
        """One answer for each question, in order."""
        if not questions:
            return []
        with self._jvm.translated():
            if tuple(questions) != self._asked:
                self._list = self._jvm.java.java.util.ArrayList()
                for question in questions:
                    self._list.add(self._jvm.question(question))
                self._asked = tuple(questions)
            text = self._jvm.joined(self._list, self._asker)
        texts = self._split(text, len(questions))
        return [parse_attributes(text, asked.attributes) for text, asked in zip(texts, questions, strict=True)]

    def _texts(self, names: Sequence[str], operator: Any) -> list[str]:
        """What an operator makes of each name."""
        if not names:
            return []
        with self._jvm.translated():
            text = self._jvm.joined(self._jvm.names(tuple(names)), operator)
        return self._split(text, len(names))

    def _split(self, text: str, count: int) -> list[str]:
        texts = text.split(_BETWEEN)
        if len(texts) != count:
            raise SourceError("a bean's value holds a separator: the answers cannot be told apart")
        return texts

    def close(self) -> None:
        """Let go of it; never raises."""
        with suppress(Exception):
            self._connector.close()


def _look_up(jvm: _Jvm, address: RmiAddress) -> Any:
    """The stub of a JVM's JMX. Not by a service:jmx: URL: that would need jdk.naming.rmi, which small Java runtimes lack."""
    tls = (jvm.java.javax.rmi.ssl.SslRMIClientSocketFactory(),) if address.registry_tls else ()
    return jvm.java.java.rmi.registry.LocateRegistry.getRegistry(address.host, address.port, *tls).lookup("jmxrmi")


def _chain(error: Any) -> list[tuple[str, str]]:
    """Class and message of a Java exception and of what caused it, the outermost first."""
    chain: list[tuple[str, str]] = []
    while error is not None and len(chain) < 10:
        chain.append((str(error.getClass().getName()), str(error.getMessage() or "")))
        error = error.getCause()
    return chain


def _stub_address(text: str) -> tuple[str, int] | None:
    """Where the stub a registry handed out says that the JVM is."""
    found = _STUB.search(text)
    return (found[1], int(found[2])) if found else None

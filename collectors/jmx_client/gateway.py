"""Opens JMX connections over RMI through one JVM that the whole agent shares.

Calls the JDK's classes through py4j, so lagwatch ships no Java code. The JVM listens on loopback and requires a token
generated for this run; it ends whenever this process ends, and is restarted if it dies. Secrets go over that socket, never
on a command line.
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

from collectors.jmx_beans.connection_interface import BeanAttributes, BeanQuery
from collectors.jmx_beans.parsing import parse_attributes, parse_info, parse_names
from collectors.jmx_client.errors import describe_java_error
from collectors.jmx_client.jvm import GatewayOptions, kill, launch
from collectors.jmx_client.method_handles import MethodHandles
from collectors.jmx_client.tls import use_certificates
from lagwatch.errors import SourceError

log = logging.getLogger(__name__)

# py4j logs every command, passwords included, and some errors on the root logger; lagwatch reports the errors itself.
logging.getLogger("py4j").setLevel(logging.CRITICAL + 1)
logging.getLogger().addFilter(lambda record: "py4j" not in record.pathname)

_CLOSE_SECONDS = 3.0
_SEPARATOR = "\x1e"  # ASCII record separator: not in bean names or values
_MAX_NAME_LISTS, _MAX_QUERIES = 200, 50_000
_STUB = re.compile(r"endpoint:\[(.*?):(\d+)[,\]]")


@dataclass(frozen=True, slots=True)
class RmiAddress:
    """The address and login of a JVM's JMX. `registry_tls`: its RMI registry uses TLS, too."""

    host: str
    port: int
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    registry_tls: bool = False


class JmxGateway:
    """Starts its JVM at the first connection. Thread-safe; calls from several threads run in parallel."""

    def __init__(self, options: GatewayOptions | None = None) -> None:
        self._options = options or GatewayOptions()
        self._lock = threading.Lock()
        self._jvm: _Jvm | None = None
        self._closed = False

    @property
    def pid(self) -> int | None:
        """The process id of the JVM; None while it is not running."""
        jvm = self._jvm
        return jvm.process.pid if jvm is not None and jvm.alive else None

    def connect(self, address: RmiAddress) -> RmiConnection:
        """Connect to an address. Raises SourceError; blocks for at most a few RMI timeouts."""
        return RmiConnection(self._running(), address)

    def stub_address(self, address: RmiAddress) -> tuple[str, int] | None:
        """The host and port in the stub that the registry returns: clients connect there next. Raises SourceError."""
        jvm = self._running()
        with jvm.translate_errors():
            return _parse_stub(str(_look_up(jvm, address).toString()))

    def parse_query(self, query: str) -> tuple[str, str | None, str | None]:
        """Bean, attribute and key of a query in jmxquery's syntax, `bean/attribute/key`. Raises SourceError."""
        jvm = self._running()
        with jvm.translate_errors():
            metric = jvm.java.com.outlyer.jmx.jmxquery.JMXMetric(query)
            return metric.getmBeanName(), metric.getAttribute(), metric.getAttributeKey()

    def close(self) -> None:
        """End the JVM; pending calls fail. A JVM that is starting at this moment ends with this process."""
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
                log.warning("JMX gateway ended, restarting exit_code=%s", self._jvm.process.returncode)
                self._jvm = None
            if self._jvm is None:
                self._jvm = _Jvm(self._options)
            if self._closed:  # during the start
                self._jvm.close()
            return self._jvm


class _ClosingClient(GatewayClient):  # type: ignore[misc]
    """Closes a socket that failed to connect to a dead JVM; py4j leaves it to the garbage collector."""

    def _create_connection(self) -> Any:
        connection = GatewayConnection(self.gateway_parameters, self.gateway_property)
        try:
            connection.start()
        except BaseException:
            connection.socket.close()
            raise
        return connection


class _ClosingGateway(JavaGateway):  # type: ignore[misc]
    def _create_gateway_client(self) -> Any:
        return _ClosingClient(gateway_parameters=self.gateway_parameters)


class _Jvm:
    """One run of the JVM, with the Java objects that all connections share."""

    def __init__(self, options: GatewayOptions) -> None:
        port, token, self.process = launch(options, (find_jar_path(), jmxquery.JAR_PATH))
        self.broken = False  # a call failed; a process that was just killed may still look alive
        try:
            self._gateway = _ClosingGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token))
        except BaseException:
            kill(self.process)
            raise
        self.java = self._gateway.jvm
        self._questions: dict[BeanQuery, Any] = {}
        self._names: dict[tuple[str, ...], Any] = {}
        try:
            with self.translate_errors():
                self.handles = MethodHandles(self.java, self.array)
                if options.trust_store or options.key_store:
                    use_certificates(self.java, self.array, options.trust_store, options.key_store)
        except BaseException:
            self.close()
            raise
        log.debug("JMX gateway started pid=%d", self.process.pid)

    @property
    def alive(self) -> bool:
        return not self.broken and self.process.poll() is None

    def close(self) -> None:
        client = self._gateway._gateway_client  # noqa: SLF001
        client.is_connected = False  # else py4j notifies the dead JVM of every collected object
        with suppress(Exception):
            self._gateway.close()
        kill(self.process)

    @contextmanager
    def translate_errors(self) -> Iterator[None]:
        """Turn errors into SourceError. Drops Java's stack traces and py4j's texts: they contain the arguments."""
        try:
            yield
        except Py4JJavaError as error:
            reason = describe_java_error(_chain(error.java_exception))
        except (Py4JError, OSError):
            self.broken = True
            reason = "the JVM for JMX ended; the next poll restarts it"
        else:
            return
        raise SourceError(reason) from None

    def array(self, kind: Any, *items: Any) -> Any:
        array = self._gateway.new_array(kind, len(items))
        for index, item in enumerate(items):
            array[index] = item
        return array

    def names(self, names: tuple[str, ...]) -> Any:
        """Names as a Java list; cached for all endpoints."""
        found = self._names.get(names)
        if found is None:
            if len(self._names) > _MAX_NAME_LISTS:
                self._names.clear()  # bound the JVM's memory: names come and go
            found = self.java.java.util.ArrayList()
            for name in names:
                found.add(name)
            self._names[names] = found  # only when complete: other threads read the cache
        return found

    def query(self, query: BeanQuery) -> Any:
        """A query as a Java array; cached for all endpoints."""
        found = self._questions.get(query)
        if found is None:
            if len(self._questions) > _MAX_QUERIES:
                self._questions.clear()
            names = self.array(self.java.java.lang.String, *query.attributes)
            found = self._questions[query] = self.array(self.java.java.lang.Object, query.bean, names)
        return found

    def map_to_text(self, objects: Any, operator: Any) -> str:
        """The results of a Java operator for each object, as one string."""
        copy = self.java.java.util.ArrayList(objects)
        copy.replaceAll(operator)
        return str(self.java.java.lang.String.join(_SEPARATOR, copy))


class RmiConnection:
    """A JmxConnection over RMI. Created by `JmxGateway.connect`; used by one thread at a time."""

    def __init__(self, jvm: _Jvm, address: RmiAddress) -> None:
        self._jvm = jvm
        self._listed_queries: tuple[BeanQuery, ...] = ()
        self._query_list: Any = None
        java = jvm.java
        with jvm.translate_errors():
            stub = _look_up(jvm, address)
            options = java.java.util.HashMap()
            # Otherwise Java keeps a thread for each connection.
            options.put("jmx.remote.x.client.connection.check.period", 0)
            if address.username is not None:
                login = jvm.array(java.java.lang.String, address.username, address.password or "")
                options.put("jmx.remote.credentials", login)
            self._connector = java.javax.management.remote.rmi.RMIConnector(stub, options)
            self._connector.connect()
            self._beans = self._connector.getMBeanServerConnection()
            self._attribute_reader = jvm.handles.attribute_reader(self._beans)
            self._name_query, self._bean_describer = (
                jvm.handles.name_query(self._beans),
                jvm.handles.bean_describer(self._beans),
            )

    def names(self, patterns: Sequence[str]) -> list[list[str]]:
        """The names of the beans that match each pattern, sorted."""
        texts = self._texts(patterns, self._name_query)
        wrong = [text for text in texts if not text.startswith("[")]
        if wrong:
            raise SourceError(f"JMX refused a pattern: {' '.join(wrong)[:200]}")
        return [parse_names(text) for text in texts]

    def attributes(self, beans: Sequence[str]) -> list[list[str]]:
        """The readable attributes of each bean, sorted; none for a bean that does not exist."""
        return [parse_info(text) for text in self._texts(beans, self._bean_describer)]

    def read(self, queries: Sequence[BeanQuery]) -> list[BeanAttributes]:
        """The attributes of each query, in order."""
        if not queries:
            return []
        with self._jvm.translate_errors():
            if tuple(queries) != self._listed_queries:
                self._query_list = self._jvm.java.java.util.ArrayList()
                for query in queries:
                    self._query_list.add(self._jvm.query(query))
                self._listed_queries = tuple(queries)
            text = self._jvm.map_to_text(self._query_list, self._attribute_reader)
        texts = self._split(text, len(queries))
        return [parse_attributes(text, query.attributes) for text, query in zip(texts, queries, strict=True)]

    def _texts(self, names: Sequence[str], operator: Any) -> list[str]:
        """The results of a Java operator for each name."""
        if not names:
            return []
        with self._jvm.translate_errors():
            text = self._jvm.map_to_text(self._jvm.names(tuple(names)), operator)
        return self._split(text, len(names))

    def _split(self, text: str, count: int) -> list[str]:
        texts = text.split(_SEPARATOR)
        if len(texts) != count:
            raise SourceError("a bean's value contains the separator character: the values cannot be split")
        return texts

    def close(self) -> None:
        """Close the connection; never raises."""
        with suppress(Exception):
            self._connector.close()


def _look_up(jvm: _Jvm, address: RmiAddress) -> Any:
    """Look up the JMX stub in the registry; a service:jmx: URL would need jdk.naming.rmi, which small JREs lack."""
    tls = (jvm.java.javax.rmi.ssl.SslRMIClientSocketFactory(),) if address.registry_tls else ()
    return jvm.java.java.rmi.registry.LocateRegistry.getRegistry(address.host, address.port, *tls).lookup("jmxrmi")


def _chain(error: Any) -> list[tuple[str, str]]:
    """Class and message of a Java exception and its causes, outermost first."""
    chain: list[tuple[str, str]] = []
    while error is not None and len(chain) < 10:
        chain.append((str(error.getClass().getName()), str(error.getMessage() or "")))
        error = error.getCause()
    return chain


def _parse_stub(text: str) -> tuple[str, int] | None:
    """The host and port in the text of a stub."""
    found = _STUB.search(text)
    return (found[1], int(found[2])) if found else None

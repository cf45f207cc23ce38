"""`lagwatch jmx ls|get`: lists and reads the MBeans of any JVM."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

import typer

from collectors.jmx_beans.connection_interface import JmxConnection
from collectors.jmx_client.browse import AttributeValue, find_beans, read_beans
from collectors.jmx_client.gateway import JmxGateway, RmiAddress
from collectors.jmx_client.jolokia import JolokiaAddress, JolokiaConnection
from collectors.kafka_client.connection import KafkaConnection
from lagwatch.assemble.connection import connection_options
from lagwatch.assemble.jmx import JmxAssembly, endpoints_of
from lagwatch.cli import output
from lagwatch.cli.options import ClusterName, Config, Json, exactly_one
from lagwatch.cli.output import TableColumn
from lagwatch.config import load_settings
from lagwatch.errors import LagwatchError
from lagwatch.snapshot.names import pick_cluster

_SERVICE = re.compile(r"service:jmx:rmi://[^/]*/jndi/rmi://(?P<address>[^/]+)/jmxrmi")
_COLUMNS = (TableColumn("BEAN", shrinks=True), TableColumn("ATTRIBUTE", shrinks=True), TableColumn("VALUE"))

_Url = Annotated[str | None, typer.Option("--url", metavar="HOST:PORT", help="a JMX port; or http://host:port/jolokia")]
_Node = Annotated[
    int | None, typer.Option("--node", metavar="ID", help="id of the broker or controller, with --config")
]
_User = Annotated[str | None, typer.Option("--username", metavar="NAME", help="JMX user, with --url")]
_Secret = Annotated[
    Path | None, typer.Option("--password-file", metavar="FILE", help="file with the user's password, with --url")
]


def build_jmx_app() -> typer.Typer:
    """The sub-commands."""
    app = typer.Typer(
        help="List and read the MBeans of a JVM.", no_args_is_help=True, rich_markup_mode=None, add_completion=False
    )
    app.command("ls", epilog="Example: lagwatch jmx ls ReplicaManager --url kafka1:9999")(list_beans)
    app.command("get", epilog="Example: lagwatch jmx get 'java.lang:type=Memory' --config lagwatch.yml --node 1")(
        get_values
    )
    return app


def list_beans(
    pattern: Annotated[str, typer.Argument(metavar="[PATTERN]", help="domain:key=value,* or part of a name")] = "*:*",
    url: _Url = None,
    config: Config = None,
    cluster: ClusterName = None,
    node: _Node = None,
    username: _User = None,
    password_file: _Secret = None,
    as_json: Json = False,
) -> None:
    """Print the names of MBeans, one per line. Exit 1 if none matches, 2 if the JVM could not be queried."""
    with _connected(url, config, cluster, node, username, password_file) as (connection, _):
        names = find_beans(connection, pattern)
    if as_json:
        output.print_json(names)
    else:
        output.print_lines(names)
    raise typer.Exit(output.OK if names else output.PROBLEM)


def get_values(
    bean: Annotated[str, typer.Argument(metavar="BEAN", help="a name or pattern; or bean/attribute/key")],
    attribute: Annotated[
        str | None, typer.Argument(metavar="[ATTRIBUTE]", help="name or pattern with *; A.b selects an item")
    ] = None,
    url: _Url = None,
    config: Config = None,
    cluster: ClusterName = None,
    node: _Node = None,
    username: _User = None,
    password_file: _Secret = None,
    as_json: Json = False,
) -> None:
    """Print attributes of MBeans. Exit 1 if none matches or one cannot be read, 2 if the JVM could not be queried."""
    with _connected(url, config, cluster, node, username, password_file) as (connection, gateway):
        query = _is_query(bean) and attribute is None
        wanted, attribute = _split_query(gateway, bean) if query else (bean, attribute or "*")
        found = list(read_beans(connection, find_beans(connection, wanted), attribute))
    if as_json:
        output.print_json([_document(one) for one in found])
    else:
        rows = [[one.bean, one.attribute, _text(one)] for one in found if not one.error]
        output.print_lines(output.table_lines(_COLUMNS, rows, output.terminal_width()) if rows else [])
        for one in found:
            if one.error:
                output.warn(f"{one.bean} {one.attribute}: {one.error}")
    raise typer.Exit(output.OK if found and not any(one.error for one in found) else output.PROBLEM)


def _is_query(bean: str) -> bool:
    """Whether it is a query in jmxquery's syntax, `bean/attribute/key`; a quoted / is part of a name."""
    return "/" in re.sub(r'"[^"]*"', "", bean)


def _split_query(gateway: JmxGateway, query: str) -> tuple[str, str]:
    """Bean and attribute of a query in jmxquery's syntax, parsed by jmxquery itself. Raises SourceError."""
    bean, attribute, key = gateway.parse_query(query)
    return bean, f"{attribute or '*'}.{key}" if key else attribute or "*"


def _text(found: AttributeValue) -> str:
    value = found.value
    return str(value).lower() if isinstance(value, bool) else str(value)


def _document(found: AttributeValue) -> dict[str, Any]:
    document: dict[str, Any] = {"bean": found.bean, "attribute": found.attribute, "value": found.value}
    return document | ({"error": found.error} if found.error else {})


@contextmanager
def _connected(
    url: str | None,
    config: Path | None,
    cluster: str | None,
    node: int | None,
    username: str | None,
    password_file: Path | None,
) -> Iterator[tuple[JmxConnection, JmxGateway]]:
    """The connection the options name, and the gateway that parses queries. Raises LagwatchError."""
    exactly_one(url=url, config=config)
    if url is not None:
        gateway = JmxGateway()
        try:
            connection = _by_url(gateway, url, username, password_file)
            yield connection, gateway
            connection.close()
        finally:
            gateway.close()
        return
    settings = load_settings(Path(config or ""))
    names = [each.name for each in settings.clusters]
    chosen = settings.clusters[names.index(pick_cluster(names, cluster, str(config)))]
    if chosen.jmx is None:
        raise LagwatchError(f"{config}: cluster {chosen.name} has no jmx section")
    jmx_assembly, kafka = JmxAssembly(settings), KafkaConnection(connection_options(chosen))
    try:
        found = {each.node: each for each in endpoints_of(chosen.jmx, kafka).find(chosen.deadline.total_seconds())}
        if node not in found:
            known = ", ".join(str(number) for number in sorted(found)) or "none"
            problem = "name a node with --node" if node is None else f"no node {node}"
            raise LagwatchError(f"{config}: {problem} (there are: {known})")
        connection = jmx_assembly.connect(chosen.jmx)(found[node].host, found[node].port)
        yield connection, jmx_assembly.gateway
        connection.close()
    finally:
        kafka.close()
        jmx_assembly.close()


def _by_url(gateway: JmxGateway, url: str, username: str | None, password_file: Path | None) -> JmxConnection:
    try:
        password = None if password_file is None else password_file.read_text().removesuffix("\n")
    except (OSError, UnicodeDecodeError):
        raise LagwatchError(f"--password-file: {password_file} cannot be read") from None
    wrong = typer.BadParameter(f'"{url}" is not host:port, such as kafka1:9999', param_hint="--url")
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:  # such as a port that is not a number
        if url.startswith(("http:", "https:")):
            raise wrong from None
        parts = urlsplit("")
    if parts.scheme in ("http", "https") and parts.hostname:
        port = parts.port or (443 if parts.scheme == "https" else 80)
        tls = parts.scheme == "https"
        return JolokiaConnection(JolokiaAddress(parts.hostname, port, parts.path, tls, username, password))
    service = _SERVICE.fullmatch(url)
    host, _, port_text = (service["address"] if service else url).rpartition(":")
    if not host or not re.fullmatch("[0-9]{1,5}", port_text) or not 1 <= int(port_text) <= 65535:
        raise wrong
    return gateway.connect(RmiAddress(host.strip("[]"), int(port_text), username, password))

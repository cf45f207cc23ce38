"""Turns a cluster's security settings into kafka-python's connection options, and its selections into name filters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from collectors.kafka_client.connection import ConnectionOptions
from collectors.kafka_client.oauth import ClientCredentials
from lagwatch.config import ClusterSettings
from lagwatch.config.security import Sasl, Tls
from lagwatch.config.settings import Selection
from lagwatch.name_filter import NameFilter


def connection_options(cluster: ClusterSettings) -> ConnectionOptions:
    """The connection options of a cluster, as kafka-python names them."""
    security = cluster.security
    client: dict[str, Any] = {"security_protocol": security.protocol}
    if security.tls is not None:
        client |= _tls_options(security.tls)
    if security.sasl is not None:
        client |= _sasl_options(security.sasl)
    token = _token_source(security.sasl) if security.sasl is not None else None
    return ConnectionOptions(cluster.bootstrap, client, token, int(cluster.receive_max))


def _tls_options(tls: Tls) -> dict[str, Any]:
    options = {
        "ssl_cafile": tls.ca_file,
        "ssl_certfile": tls.cert_file,
        "ssl_keyfile": tls.key_file,
        "ssl_crlfile": tls.crl_file,
    }
    paths: dict[str, Any] = {key: str(path) for key, path in options.items() if path is not None}
    return paths | {"ssl_password": tls.reveal_key_password(), "ssl_check_hostname": tls.check_hostname}


def _sasl_options(sasl: Sasl) -> dict[str, Any]:
    options: dict[str, Any] = {"sasl_mechanism": sasl.mechanism}
    if sasl.username is not None:
        options |= {"sasl_plain_username": sasl.username, "sasl_plain_password": sasl.reveal_password()}
    if sasl.kerberos is not None:
        options["sasl_kerberos_service_name"] = sasl.kerberos.service_name
        options["sasl_kerberos_domain_name"] = sasl.kerberos.domain_name
    return options


def _token_source(sasl: Sasl) -> Callable[[], str] | None:
    if sasl.oauth is not None:
        secret = sasl.oauth.reveal_client_secret() or ""
        return ClientCredentials(sasl.oauth.token_url, sasl.oauth.client_id, secret, sasl.oauth.scope)
    if sasl.token_file is not None:
        path = sasl.token_file
        return lambda: path.read_text().strip()  # read at each connection: another program renews it
    if sasl.token is not None:
        token = sasl.token.get_secret_value()
        return lambda: token
    return None


def name_filter(selection: Selection) -> NameFilter:
    """The name filter of a selection."""
    return NameFilter([p.pattern for p in selection.include], [p.pattern for p in selection.exclude])

"""Opens JMX connections over HTTP to a Jolokia agent, for hosts that expose no RMI.

Sends all queries of a poll in one request. Beans and values are the same as over RMI.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import requests

from collectors.jmx_beans.connection_interface import BeanAttributes, BeanQuery, Value
from lagwatch.errors import SourceError


@dataclass(frozen=True, slots=True)
class JolokiaAddress:
    """The address and login of an agent. `ca_file`: the CA of its certificate, by default the system's CAs."""

    host: str
    port: int
    path: str = "/jolokia"
    tls: bool = False
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    ca_file: str | None = None

    @property
    def url(self) -> str:
        """The URL for requests."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.tls else 'http'}://{host}:{self.port}/{self.path.strip('/')}/"


class JolokiaConnection:
    """A JmxConnection over HTTP. Connects at the first query; used by one thread at a time."""

    def __init__(self, address: JolokiaAddress, *, timeout_seconds: float = 5.0) -> None:
        self._url = address.url
        self._timeout = timeout_seconds
        self._session = requests.Session()
        self._session.trust_env = False  # no proxy to the nodes, and no password from .netrc
        self._session.verify = address.ca_file or True
        if address.username is not None:
            self._session.auth = (address.username, address.password or "")

    def names(self, patterns: Sequence[str]) -> list[list[str]]:
        """The names of the beans that match each pattern, sorted."""
        options = {"canonicalNaming": "false"}  # as over RMI: properties in their original order
        found = self._post([{"type": "search", "mbean": pattern, "config": options} for pattern in patterns])
        for answer in found:  # a policy may forbid searching: that is not the same as no match
            if answer.get("status") != requests.codes.ok:
                raise SourceError(f'Jolokia refused to search: "{" ".join(str(answer.get("error")).split())[:200]}"')
        return [sorted(answer.get("value") or ()) for answer in found]

    def attributes(self, beans: Sequence[str]) -> list[list[str]]:
        """The readable attributes of each bean, sorted; none for a bean that does not exist."""
        options = {"ignoreErrors": "true"}
        answers = self._post([{"type": "read", "mbean": bean, "config": options} for bean in beans])
        return [
            sorted(answer.get("value") or ()) if answer.get("status") == requests.codes.ok else [] for answer in answers
        ]

    def read(self, queries: Sequence[BeanQuery]) -> list[BeanAttributes]:
        """The attributes of each query, in order."""
        options = {"ignoreErrors": "true", "serializeLong": "number"}
        body = [
            {
                "type": "read",
                "mbean": query.bean,
                "attribute": list(query.attributes),
                "config": options,
            }
            for query in queries
        ]
        return [_attributes(answer) for answer in self._post(body)]

    def close(self) -> None:
        """Close the connection; never raises."""
        with suppress(Exception):
            self._session.close()

    def _post(self, queries: Sequence[Mapping[str, Any]]) -> list[Any]:
        if not queries:
            return []
        try:
            response = self._session.post(self._url, json=list(queries), timeout=self._timeout)
            if response.status_code in (requests.codes.unauthorized, requests.codes.forbidden):
                raise SourceError("Jolokia refused the login: user name or password is wrong, or missing")
            if not response.ok:
                raise SourceError(f"Jolokia returned HTTP {response.status_code}: check path in clusters[].jmx")
            response_body = response.json()
        except requests.RequestException as error:
            raise SourceError(_describe_error(error)) from None
        except ValueError:
            raise SourceError("the response is not Jolokia's: check port and path in clusters[].jmx") from None
        if isinstance(response_body, dict) and "error" in response_body:  # one malformed query fails the whole request
            raise SourceError(f'Jolokia refused: "{" ".join(str(response_body["error"]).split())[:200]}"')
        if not isinstance(response_body, list) or len(response_body) != len(queries):
            raise SourceError("the response is not Jolokia's: check port and path in clusters[].jmx")
        return response_body


def _describe_error(error: requests.RequestException) -> str:
    """Why a request failed, without the URL that requests puts in its messages."""
    if isinstance(error, requests.exceptions.SSLError):
        return "TLS failed: its certificate is not trusted, or the port does not speak TLS (see jmx.ca_file)"
    if isinstance(error, requests.Timeout):
        return "no answer in time"
    if isinstance(error, requests.exceptions.InvalidURL):
        return "invalid address: check port in clusters[].jmx"
    text = str(error)
    if "Name or service not known" in text or "resolve" in text:
        return "host not found"
    return "connection refused" if "refused" in text else "connection lost"


def _attributes(answer: Mapping[str, Any]) -> BeanAttributes:
    """The attributes of one bean, without those that Jolokia returned as an error text."""
    values = answer.get("value")
    if answer.get("status") != requests.codes.ok or not isinstance(values, dict):
        return None
    return {name: _value(value) for name, value in values.items() if not _is_error(value)}


def _is_error(value: Any) -> bool:
    return value is None or (isinstance(value, str) and value.startswith("ERROR: "))


def _value(value: Any) -> Value:
    """A JSON value; NaN and infinity arrive as text."""
    if isinstance(value, str) and value in ("NaN", "Infinity", "-Infinity"):
        return float(value.replace("Infinity", "inf"))
    return value if isinstance(value, (int, float, bool, str, dict)) else str(value)

"""JMX over HTTP, for hosts that expose no RMI: an address of a Jolokia agent enters, a connection to its beans leaves.

All questions of a poll go in one request. The same beans, the same answers as over RMI.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import requests

from collectors.jmx_client.parsing import BeanAnswer, BeanQuery, Value
from lagwatch.errors import SourceError


@dataclass(frozen=True, slots=True)
class JolokiaAddress:
    """Where an agent is, and who asks. `ca_file`: who may sign its certificate, else the system's."""

    host: str
    port: int
    path: str = "/jolokia"
    tls: bool = False
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    ca_file: str | None = None

    @property
    def url(self) -> str:
        """Where requests go."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.tls else 'http'}://{host}:{self.port}/{self.path.strip('/')}/"


class JolokiaConnection:
    """The beans of one JVM over HTTP. Connects at the first question; used by one thread at a time."""

    def __init__(self, address: JolokiaAddress, *, timeout_seconds: float = 5.0) -> None:
        self._url = address.url
        self._timeout = timeout_seconds
        self._session = requests.Session()
        self._session.trust_env = False  # nodes are asked directly; and no .netrc password goes out unasked
        self._session.verify = address.ca_file or True
        if address.username is not None:
            self._session.auth = (address.username, address.password or "")

    def names(self, patterns: Sequence[str]) -> list[list[str]]:
        """For each pattern the beans whose name matches, sorted."""
        options = {"canonicalNaming": "false"}  # as RMI writes them: the properties in their own order
        found = self._ask([{"type": "search", "mbean": pattern, "config": options} for pattern in patterns])
        for answer in found:  # a policy may forbid to search: nothing found is then not nothing there
            if answer.get("status") != requests.codes.ok:
                raise SourceError(f'Jolokia refused to search: "{" ".join(str(answer.get("error")).split())[:200]}"')
        return [sorted(answer.get("value") or ()) for answer in found]

    def attributes(self, beans: Sequence[str]) -> list[list[str]]:
        """For each bean the attributes that can be read, sorted; none for one that is not there."""
        options = {"ignoreErrors": "true"}
        told = self._ask([{"type": "read", "mbean": bean, "config": options} for bean in beans])
        return [
            sorted(answer.get("value") or ()) if answer.get("status") == requests.codes.ok else [] for answer in told
        ]

    def read(self, questions: Sequence[BeanQuery]) -> list[BeanAnswer]:
        """One answer for each question, in order."""
        options = {"ignoreErrors": "true", "serializeLong": "number"}
        asked = [
            {
                "type": "read",
                "mbean": question.bean,
                "attribute": list(question.attributes),
                "config": options,
            }
            for question in questions
        ]
        return [_answer(told) for told in self._ask(asked)]

    def close(self) -> None:
        """Let go of it; never raises."""
        with suppress(Exception):
            self._session.close()

    def _ask(self, questions: Sequence[Mapping[str, Any]]) -> list[Any]:
        if not questions:
            return []
        try:
            response = self._session.post(self._url, json=list(questions), timeout=self._timeout)
            if response.status_code in (requests.codes.unauthorized, requests.codes.forbidden):
                raise SourceError("Jolokia refused the login: user name or password is wrong, or missing")
            if not response.ok:
                raise SourceError(f"Jolokia answered with HTTP {response.status_code}: is path right?")
            told = response.json()
        except requests.RequestException as error:
            raise SourceError(_words(error)) from None
        except ValueError:
            raise SourceError("the answer is not Jolokia's: is it the right port and path?") from None
        if isinstance(told, dict) and "error" in told:  # one question it cannot read refuses all of them
            raise SourceError(f'Jolokia refused: "{" ".join(str(told["error"]).split())[:200]}"')
        if not isinstance(told, list) or len(told) != len(questions):
            raise SourceError("the answer is not Jolokia's: is it the right port and path?")
        return told


def _words(error: requests.RequestException) -> str:
    """Why, without the URL's details that requests puts in its texts."""
    if isinstance(error, requests.exceptions.SSLError):
        return "TLS failed: its certificate is not trusted, or the port does not speak TLS (see jmx.ca_file)"
    if isinstance(error, requests.Timeout):
        return "no answer in time"
    if isinstance(error, requests.exceptions.InvalidURL):
        return "not an address: look at port in clusters[].jmx"
    text = str(error)
    if "Name or service not known" in text or "resolve" in text:
        return "host not found"
    return "connection refused" if "refused" in text else "connection lost"


def _answer(told: Mapping[str, Any]) -> BeanAnswer:
    """The attributes of one bean. One that could not be read stands in the answer as an error text of Jolokia's."""
    values = told.get("value")
    if told.get("status") != requests.codes.ok or not isinstance(values, dict):
        return None
    return {name: _value(value) for name, value in values.items() if not _is_error(value)}


def _is_error(value: Any) -> bool:
    return value is None or (isinstance(value, str) and value.startswith("ERROR: "))


def _value(value: Any) -> Value:
    """Numbers that JSON has no word for come as text."""
    if isinstance(value, str) and value in ("NaN", "Infinity", "-Infinity"):
        return float(value.replace("Infinity", "inf"))
    return value if isinstance(value, (int, float, bool, str, dict)) else str(value)

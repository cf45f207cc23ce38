"""Writes polls to InfluxDB 2.x as line protocol, synchronously.

Timestamps are set at collection, so writing a point twice gives the same point.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lagwatch.batch import Batch
from lagwatch.catalogue import BUILT_IN, Catalogue
from lagwatch.errors import SinkError
from lagwatch.sinks.influx.line_protocol import encode_lines
from lagwatch.sinks.influx.row_filter import RowFilter, TableRule

log = logging.getLogger(__name__)

_LINES_A_REQUEST = 10_000
_CONFLICT = re.compile(
    r'input field "(?P<field>.*?)" on measurement "(?P<measurement>.*?)" '
    r"is type (?P<new>\w+), already exists as type (?P<old>\w+)"
)
_POINTS_AT_FAULT = {400, 413, 422}
_WHAT_TO_DO = {
    401: "the token is not accepted; check influxdb.token",
    403: "the token may not write to this bucket",
}


_REASONS = {
    "refused": "connection refused",
    "timed out": "timed out",
    "Remote end closed": "it closed the connection",
    "CERTIFICATE_VERIFY_FAILED": "its certificate is not trusted",
}


@dataclass(frozen=True, slots=True)
class InfluxOptions:
    """The connection and what to write."""

    url: str
    org: str
    bucket: str
    token: str = field(repr=False)
    ca_file: str | None = None
    verify_tls: bool = True
    proxy: str | None = None
    timeout_seconds: float = 10
    tags: Mapping[str, str] = field(default_factory=dict)
    rules: Mapping[str, TableRule] = field(default_factory=dict)
    max_series: int = 1_000_000
    bucket_retention_seconds: int | None = None


class InfluxSink:
    """Writes polls to one bucket. The constructor does not connect."""

    name = "influxdb"
    in_order = False

    def __init__(self, options: InfluxOptions, catalogue: Catalogue = BUILT_IN) -> None:
        self._options = options
        self._catalogue = catalogue
        self._row_filter = RowFilter(options.rules, options.max_series)
        self._client: Any = None
        self._retention_set = options.bucket_retention_seconds is None

    def write(self, poll: int, batches: Sequence[Batch]) -> None:  # noqa: ARG002  # points carry their own time
        """Write the selected rows of a poll. Raises SinkError."""
        # The journal may still have tables of user beans that were removed from the settings.
        known = [batch for batch in batches if batch.table in self._catalogue]
        for body in self._bodies(self._row_filter.apply(known)):
            self._post(body)

    def settled(self, poll: int) -> int:
        """Every written poll: InfluxDB responds after its log is on disk."""
        return poll

    def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def _bodies(self, batches: Sequence[Batch]) -> Iterator[bytes]:
        """Request bodies of up to 10,000 lines, which InfluxDB recommends: splits large batches, joins small ones."""
        parts: list[memoryview] = []
        room = _LINES_A_REQUEST
        for batch in batches:
            lines = encode_lines(batch, self._catalogue[batch.table], self._options.tags)
            first = 0
            while first < len(lines):
                last = min(first + room, len(lines))
                parts.append(lines.slice(first, last))
                room -= last - first
                first = last
                if not room:
                    yield b"".join(parts)
                    parts, room = [], _LINES_A_REQUEST
        if parts:
            yield b"".join(parts)

    def _post(self, body: bytes) -> None:
        import urllib3  # noqa: PLC0415  # with influxdb_client it takes a second to import, which only this sink needs
        from influxdb_client.rest import ApiException  # noqa: PLC0415

        try:
            client = self._connected()
            client.write_api(write_options=_synchronous()).write(
                bucket=self._options.bucket, org=self._options.org, record=body, write_precision="ms"
            )
        except ApiException as error:
            if not error.status:  # the client reports TLS errors this way
                raise self._no_answer(str(error.reason)) from None
            raise refusal(error.status, error.headers or {}, str(error.body or ""), self._options) from None
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise self._no_answer(str(error.__cause__ or error)) from None

    def _no_answer(self, text: str) -> SinkError:
        """The error for a failed request. urllib3 nests the reason several times; common reasons are shortened."""
        reason = next((words for pattern, words in _REASONS.items() if pattern in text), text[-200:])
        return SinkError(f"no answer from {self._options.url}: {reason}", retriable=True)

    def _connected(self) -> Any:
        if self._client is None:
            from influxdb_client.client.influxdb_client import InfluxDBClient  # noqa: PLC0415

            options = self._options
            self._client = InfluxDBClient(
                url=options.url,
                token=options.token,
                org=options.org,
                timeout=round(options.timeout_seconds * 1000),
                enable_gzip=True,
                verify_ssl=options.verify_tls,
                ssl_ca_cert=options.ca_file,
                proxy=options.proxy,
            )
        if not self._retention_set:
            self._set_retention()
        return self._client

    def _set_retention(self) -> None:
        """Set the bucket's retention on first use. If InfluxDB refuses, logs a warning and continues."""
        from influxdb_client.rest import ApiException  # noqa: PLC0415

        seconds = self._options.bucket_retention_seconds or 0
        rule = {"type": "expire", "everySeconds": seconds, "shardGroupDurationSeconds": shard_seconds(seconds)}
        try:
            buckets = self._client.buckets_api()
            bucket = buckets.find_bucket_by_name(self._options.bucket)
            if bucket is None:
                return  # the write that follows reports it
            bucket.retention_rules = [rule]
            buckets.update_bucket(bucket=bucket)
        except ApiException as error:
            log.warning(
                'bucket retention not set bucket=%s reason="%s"', self._options.bucket, _message(str(error.body))
            )
        self._retention_set = True


def shard_seconds(retention_seconds: int) -> int:
    """The shard duration for a retention; it must be shorter. These are InfluxDB's own defaults."""
    days = retention_seconds / 86_400
    return 3600 if days < 2 else 86_400 if days <= 180 else 7 * 86_400


def _synchronous() -> Any:
    from influxdb_client.client.write_api import SYNCHRONOUS  # noqa: PLC0415

    return SYNCHRONOUS


def refusal(status: int, headers: Mapping[str, str], body: str, options: InfluxOptions) -> SinkError:
    """The SinkError for an error response of InfluxDB."""
    said = _message(body)
    # InfluxDB explains rejected points in JSON; a proxy, or a TLS port reached without TLS, answers 400 to everything.
    if status == 413 or (status in _POINTS_AT_FAULT and _is_influxdb(body)):
        conflict = _CONFLICT.search(said)
        if conflict:
            said = (
                f"field {conflict['field']} of {conflict['measurement']} is {conflict['old']} in bucket "
                f"{options.bucket}, but lagwatch writes {conflict['new']}"
            )
        return SinkError(said or f"rejected ({status})", retriable=False)
    if status == 404:
        return SinkError(f'bucket "{options.bucket}" or organisation "{options.org}" not found: {said}', retriable=True)
    reason = f"{_WHAT_TO_DO.get(status, 'answered')} ({status}{': ' + said if said else ''})"
    return SinkError(reason, retriable=True, retry_after_seconds=_retry_after(headers))


def _retry_after(headers: Mapping[str, str]) -> float | None:
    value = headers.get("Retry-After") or headers.get("retry-after")
    try:
        return float(value) if value is not None else None
    except ValueError:
        return None


def _is_influxdb(body: str) -> bool:
    try:
        return isinstance(json.loads(body), dict)
    except ValueError:
        return False


def _message(body: str) -> str:
    try:
        return str(json.loads(body).get("message", ""))
    except (ValueError, AttributeError):
        return body[:200].strip()

"""Builds the sinks from the settings. None of them connects yet."""

from __future__ import annotations

from pathlib import Path

from lagwatch.assemble.catalogue import catalogue_of
from lagwatch.catalogue import Catalogue
from lagwatch.clock import Clock
from lagwatch.config import Settings
from lagwatch.config.settings import Archive, Influxdb
from lagwatch.protocols import Sink
from lagwatch.shipping import ShippingRate
from lagwatch.sinks.archive.sink import ArchiveSink
from lagwatch.sinks.influx.row_filter import TableRule
from lagwatch.sinks.influx.sink import InfluxOptions, InfluxSink


def assemble_sinks(settings: Settings, clock: Clock) -> list[tuple[Sink, ShippingRate]]:
    """The sinks of the settings, each with its shipping rate. None of them connects yet."""
    sinks: list[tuple[Sink, ShippingRate]] = []
    catalogue = catalogue_of(settings)
    if settings.influxdb is not None:
        rate = ShippingRate(backlog_rows_a_second=settings.influxdb.backlog_rows_a_second)
        sinks.append((InfluxSink(influx_options(settings.influxdb), catalogue), rate))
    if settings.archive is not None:
        sinks.append((_archive(settings.archive, settings.journal.path, catalogue, clock), ShippingRate()))
    return sinks


def influx_options(influxdb: Influxdb) -> InfluxOptions:
    """The options of the InfluxDB sink."""
    retention = influxdb.bucket_retention
    return InfluxOptions(
        influxdb.url,
        influxdb.org,
        influxdb.bucket,
        influxdb.reveal_token(),
        ca_file=str(influxdb.ca_file) if influxdb.ca_file else None,
        verify_tls=influxdb.verify_tls,
        proxy=influxdb.proxy,
        timeout_seconds=influxdb.timeout.total_seconds(),
        tags=dict(influxdb.tags),
        rules={name: TableRule(table.every.total_seconds(), table.rows) for name, table in influxdb.tables},
        max_series=influxdb.max_series,
        bucket_retention_seconds=round(retention.total_seconds()) if retention else None,
    )


def _archive(archive: Archive, journal: Path, catalogue: Catalogue, clock: Clock) -> Sink:
    return ArchiveSink(
        archive.url,
        retention_days=archive.retention.days,
        partition_rows_every_seconds=archive.partition_rows_every.total_seconds(),
        catalogue=catalogue,
        clock=clock,
        spool_folder=journal.parent,  # a local disk; the archive may be on a network share
    )

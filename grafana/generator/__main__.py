"""Writes the dashboards and the tables of the README."""

from __future__ import annotations

from grafana.generator.output import write_all

if __name__ == "__main__":
    for path in write_all():
        print(path)  # noqa: T201

"""Runs `lagwatch` as `python -m lagwatch.cli`."""

from __future__ import annotations

from lagwatch.cli.app import main

main()

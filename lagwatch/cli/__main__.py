"""Runs `lagwatch` as `python -m lagwatch.cli`."""

from __future__ import annotations

from lagwatch.cli import main

main()

"""`python -m lagwatch.cli` is `lagwatch`."""

from __future__ import annotations

from lagwatch.cli import main

main()

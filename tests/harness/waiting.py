"""Waiting for something to become true, with a bound and a reason."""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_until(true: Callable[[], bool], seconds: float, why: Callable[[], str] | str = "it did not happen") -> None:
    """Return as soon as `true` holds; fail with the reason after this many seconds."""
    until = time.monotonic() + seconds
    while not true():
        if time.monotonic() > until:
            raise AssertionError(f"after {seconds:.0f} s: {why() if callable(why) else why}")
        time.sleep(0.05)

"""Memory of a long-running process: what a poll needed for a moment is given back to the system.

Allocators keep what is freed for the next time. At 100,000 group-partitions that is as much again as the agent holds.
"""

from __future__ import annotations

import ctypes
import resource
import sys
from collections.abc import Callable

import pyarrow as pa


def _find_trim() -> Callable[[int], int] | None:
    try:
        found: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):  # not glibc
        return None
    return found


_TRIM = _find_trim()


def share_one_allocator() -> None:
    """Let Arrow use the system's allocator, so that there is one place to give back from."""
    pa.set_memory_pool(pa.system_memory_pool())


def trim_malloc() -> None:
    """Return freed memory to the system; takes a few milliseconds."""
    if _TRIM is not None:
        _TRIM(0)


def memory_bytes() -> int:
    """Resident memory of this process."""
    if sys.platform == "linux":
        with open("/proc/self/statm") as statm:  # noqa: PTH123  # a file of the kernel, read twice a minute
            return int(statm.read().split()[1]) * resource.getpagesize()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

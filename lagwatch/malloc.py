"""Returns freed memory to the operating system after a poll, and reports resident memory.

Allocators keep freed memory for reuse: at 100,000 group-partitions that doubles the memory of the agent.
"""

from __future__ import annotations

import ctypes
import resource
import sys
from collections.abc import Callable

import pyarrow as pa


def _load_malloc_trim() -> Callable[[int], int] | None:
    try:
        function: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):  # not glibc
        return None
    return function


_MALLOC_TRIM = _load_malloc_trim()


def share_one_allocator() -> None:
    """Make Arrow use the system allocator, so that `trim_malloc` covers its memory too."""
    pa.set_memory_pool(pa.system_memory_pool())


def trim_malloc() -> None:
    """Return freed memory to the operating system; takes a few milliseconds, does nothing without glibc."""
    if _MALLOC_TRIM is not None:
        _MALLOC_TRIM(0)


def memory_bytes() -> int:
    """Resident memory of this process; its peak where the system is not Linux."""
    if sys.platform == "linux":
        with open("/proc/self/statm") as statm:  # noqa: PTH123  # a kernel file, read twice a minute
            return int(statm.read().split()[1]) * resource.getpagesize()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

"""Parses and formats durations such as `30s` and sizes such as `2GiB`. A number without a unit is an error."""

from __future__ import annotations

import re
from datetime import timedelta

# Largest first, as in Prometheus: `1h30m`, each unit once and in this order.
_DURATION_UNITS = {
    "w": timedelta(weeks=1),
    "d": timedelta(days=1),
    "h": timedelta(hours=1),
    "m": timedelta(minutes=1),
    "s": timedelta(seconds=1),
    "ms": timedelta(milliseconds=1),
}
# ASCII digits only, and few: int() accepts the digits of any script and raises above 4,300 of them.
_DURATION = re.compile("".join(rf"(?:([0-9]{{1,9}}){unit})?" for unit in _DURATION_UNITS))
_DURATION_HINT = "try 30s or 5m"

_SIZE_UNITS = {"TiB": 2**40, "GiB": 2**30, "MiB": 2**20, "KiB": 2**10, "B": 1}
_SIZE = re.compile(r"([0-9]{1,15})(TiB|GiB|MiB|KiB|B)")
_DECIMAL_SIZE = re.compile(r"([0-9]{1,15}) ?([kKMGT])B?")
_SIZE_HINT = "try 512MiB or 2GiB"


def parse_duration(text: str) -> timedelta:
    """`90s`, `5m` or `1h30m` as a timedelta. The ValueError omits the text, which may contain a secret."""
    match = _DURATION.fullmatch(text)
    if match is None or match.lastindex is None:
        if re.fullmatch(r"[0-9]{1,9}", text):
            raise ValueError(f"is a duration without a unit (try {text}s)")
        raise ValueError(f"is not a duration ({_DURATION_HINT})")
    pairs = zip(match.groups(), _DURATION_UNITS.values(), strict=True)
    try:
        return sum((int(count) * unit for count, unit in pairs if count), timedelta())
    except OverflowError:
        raise ValueError(f"is a duration that is too long ({_DURATION_HINT})") from None


def format_duration(value: timedelta) -> str:
    """The shortest text that `parse_duration` reads as this value, to the millisecond: `24h` is `1d`, 90 s is `90s`."""
    left = round(value / timedelta(milliseconds=1)) * timedelta(milliseconds=1)
    for unit, length in _DURATION_UNITS.items():
        if left >= length and not left % length:
            return f"{left // length}{unit}"
    return "0s"


def parse_size(text: str) -> int:
    """`512MiB` in bytes. `2GB` is an error: it is read as 2,000,000,000 by some and as 2GiB by others."""
    match = _SIZE.fullmatch(text)
    if match is not None:
        return int(match[1]) * _SIZE_UNITS[match[2]]
    decimal = _DECIMAL_SIZE.fullmatch(text)
    hint = f"try {decimal[1]}{decimal[2].upper()}iB" if decimal else _SIZE_HINT
    raise ValueError(f"is not a size ({hint})")


def format_size(value: int) -> str:
    """The shortest exact text that `parse_size` reads as this value."""
    unit = next((name for name, size in _SIZE_UNITS.items() if value >= size and value % size == 0), "B")
    return f"{value // _SIZE_UNITS[unit]}{unit}"

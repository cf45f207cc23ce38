"""Formats durations, sizes and counts for people: one style in every command, log line and message."""

from __future__ import annotations

_UNITS = (("d", 86_400), ("h", 3600), ("m", 60), ("s", 1))


def duration_text(seconds: float) -> str:
    """A duration in its two largest units: `4m30s`, `2d3h`, `0.4s`."""
    if seconds < 10:
        return f"{seconds:.1f}s" if seconds % 1 >= 0.05 else f"{seconds:.0f}s"
    remaining = round(seconds)
    largest = next(position for position, (_, length) in enumerate(_UNITS) if remaining >= length)
    text = ""
    for unit, length in _UNITS[largest : largest + 2]:
        count, remaining = divmod(remaining, length)
        text += f"{count}{unit}" if count else ""
    return text


def size_text(size: float) -> str:
    """A number of bytes in the largest unit that fits: `1.3 GiB`."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def counted(number: int, noun: str) -> str:
    """A number with its noun: `1 message`, `3 messages`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"

"""Text for people and programs: durations, sizes, counts, times, and names that are safe to print."""

from __future__ import annotations

from datetime import UTC, datetime

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
    """`1 message`, `3,000 messages`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def one_line(text: str) -> str:
    r"""Escapes text for one line of output: newlines and non-printable characters become escapes such as `\n`.

    Text that is empty, or starts or ends with a blank, is quoted: else it would be invisible.
    """
    if not text.isprintable():
        text = "".join(char if char.isprintable() else _escaped(char) for char in text)
    return text if text and text == text.strip() else f'"{text}"'


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode()


def iso_time(at_ms: int) -> str:
    """A time as other programs read it, in UTC to the millisecond."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")

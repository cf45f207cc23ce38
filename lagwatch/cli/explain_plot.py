"""Plots one partition over its window: read and unread offsets, and the lag below. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lagwatch.text import duration_text

_WIDTH, _HEIGHT = 60, 8
PlotPoints = Sequence[tuple[int, int]]  # ms and offset, oldest first


@dataclass(frozen=True, slots=True)
class PlotCharacters:
    """The characters of a plot; `levels` rise from none to full."""

    read: str
    unread: str
    levels: str
    axis: str


UNICODE = PlotCharacters("█", "░", " ▁▂▃▄▅▆▇█", "│")
ASCII = PlotCharacters("#", ".", " .:-=+*#@", "|")


def characters_for(encoding: str | None) -> PlotCharacters:
    """Blocks where the encoding has them, else ASCII."""
    try:
        (UNICODE.read + UNICODE.unread + UNICODE.levels + UNICODE.axis).encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return ASCII
    return UNICODE


def plot(committed: PlotPoints, ends: PlotPoints, now_ms: int, characters: PlotCharacters = UNICODE) -> list[str]:
    """The plot, from the oldest commit until now; empty where there is no time or no offset to draw."""
    began = committed[0][0] if committed else now_ms
    if now_ms <= began or not ends:
        return []
    times = np.linspace(began, now_ms, _WIDTH)
    read = [_last(committed, int(at)) for at in times]
    end = np.maximum(np.interp(times, [at for at, _ in ends], [offset for _, offset in ends]), read)
    low, high = min(read), int(end.max())
    if high == low:
        return [
            f"nothing produced and nothing read for {duration_text((now_ms - began) / 1000)}: log end and offset are {low}"
        ]
    labels = {_HEIGHT - 1: str(high), 0: str(low)}
    margin = max(len(label) for label in labels.values())
    lines = []
    for height in reversed(range(_HEIGHT)):
        value = low + (high - low) * height / _HEIGHT
        cells = (
            characters.read if value <= r else characters.unread if value < e else " "
            for r, e in zip(read, end, strict=True)
        )
        lines.append(f"{labels.get(height, ''):>{margin}} {characters.axis}{''.join(cells)}".rstrip())
    lags = [e - r for r, e in zip(read, end.tolist(), strict=True)]
    lines.append(f"{'lag':>{margin}} {characters.axis}{_levels(lags, characters)}{characters.axis} {_span(lags)}")
    ago = f"{duration_text((now_ms - began) / 1000)} ago"
    lines.append(
        f"{'':>{margin}}  {ago}{'now':>{_WIDTH - len(ago)}}   {characters.read} read  {characters.unread} unread"
    )
    return lines


def _last(points: PlotPoints, at_ms: int) -> int:
    """The offset at that time: it stays until the next commit. Times from two clocks may be slightly out of order."""
    times = [time for time, _ in points]
    return points[max(bisect_right(times, at_ms) - 1, 0)][1]


def _levels(lags: Sequence[float], characters: PlotCharacters) -> str:
    """Scaled from zero, or from the lowest lag where that is high, so that growth from 2800 to 3000 shows."""
    least, most = min(lags), max(lags)
    floor = 0.0 if least < most / 2 or least == most else least
    top = len(characters.levels) - 1
    return "".join(characters.levels[int(np.ceil((lag - floor) / ((most - floor) or 1) * top - 1e-9))] for lag in lags)


def _span(lags: Sequence[float]) -> str:
    return f"{min(lags):.0f} to {max(lags):.0f}"

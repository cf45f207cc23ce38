"""The small things kept beside the batches: cursors, counts of rows lost, and how far retention has come."""

from __future__ import annotations

import sqlite3
import zlib
from dataclasses import dataclass, field

from lagwatch.journal.cursors import Cursor, load_cursor

_SINK, _DROPPED, _MARK = "sink:", "dropped:", "mark:"  # prefixes of keys in table `state`


@dataclass(slots=True)
class State:
    """Held in memory and written in the transaction of whatever changed it, so that it survives a disk that is full.

    `damaged` counts the entries of the file whose CRC did not match.
    """

    cursors: dict[str, Cursor] = field(default_factory=dict)
    dropped: dict[str, int] = field(default_factory=dict)
    marks: dict[str, int] = field(default_factory=dict)
    damaged: int = 0
    unsaved: set[str] = field(default_factory=set)

    def set_cursor(self, sink: str, cursor: Cursor) -> None:
        """A sink stands there now."""
        self.cursors[sink] = cursor
        self.unsaved.add(_SINK + sink)

    def remove_cursor(self, sink: str) -> None:
        """A sink is no more."""
        if self.cursors.pop(sink, None) is not None:
            self.unsaved.add(_SINK + sink)

    def count_dropped(self, reason: str, rows: int) -> None:
        """So many rows more were lost."""
        if rows:
            self.dropped[reason] = self.dropped.get(reason, 0) + rows
            self.unsaved.add(_DROPPED + reason)

    def set_mark(self, name: str, poll: int) -> None:
        """Something has been done up to and including this poll."""
        self.marks[name] = poll
        self.unsaved.add(_MARK + name)

    def forget_polls(self, through: int) -> None:
        """The polls up to and including `through` are gone: nobody can ship them any more."""
        for sink, cursor in self.cursors.items():
            if cursor.without(through) != cursor:
                self.set_cursor(sink, cursor.without(through))

    def begin_anew(self, cursor: Cursor) -> None:
        """The file is gone and a new one has nothing of this; every sink stands at `cursor`."""
        self.marks.clear()
        self.cursors = dict.fromkeys(self.cursors, cursor)
        self.unsaved |= {_SINK + name for name in self.cursors}
        self.unsaved |= {_DROPPED + name for name in self.dropped}

    def joined(self, other: State) -> State:
        """This state as loaded, with what happened before it could be: sinks unknown here, rows lost."""
        for sink in other.cursors.keys() - self.cursors.keys():
            self.set_cursor(sink, other.cursors[sink])
        for reason, rows in other.dropped.items():
            self.count_dropped(reason, rows)
        return self

    def copy(self) -> State:
        """To go back to when a transaction fails."""
        return State(dict(self.cursors), dict(self.dropped), dict(self.marks), self.damaged, set(self.unsaved))

    def save(self, connection: sqlite3.Connection) -> None:
        """Write what has changed, within the caller's transaction; `unsaved` is the caller's to clear afterwards."""
        for key in self.unsaved:
            value = self._text(key)
            if value is None:
                connection.execute("DELETE FROM state WHERE key = ?", (key,))
            else:
                connection.execute("REPLACE INTO state VALUES (?, ?, ?)", (key, value, _crc(key, value)))

    def _text(self, key: str) -> str | None:
        if key.startswith(_SINK):
            cursor = self.cursors.get(key.removeprefix(_SINK))
            return cursor.dumps() if cursor else None
        if key.startswith(_DROPPED):
            return str(self.dropped[key.removeprefix(_DROPPED)])
        mark = self.marks.get(key.removeprefix(_MARK))
        return None if mark is None else str(mark)


def load_state(connection: sqlite3.Connection) -> State:
    """What the file holds."""
    state = State()
    for key, value, crc in connection.execute("SELECT key, value, crc FROM state WHERE crc IS NOT NULL").fetchall():
        if not isinstance(key, str) or not isinstance(value, str) or _crc(key, value) != crc:
            state.damaged += 1
        elif key.startswith(_SINK):
            state.cursors[key.removeprefix(_SINK)] = load_cursor(value)
        elif key.startswith(_DROPPED):
            state.dropped[key.removeprefix(_DROPPED)] = int(value)
        elif key.startswith(_MARK):
            state.marks[key.removeprefix(_MARK)] = int(value)
    return state


def _crc(key: str, value: str) -> int:
    # Over the key too: a value must not turn up under another name.
    return zlib.crc32(f"{key}\0{value}".encode(errors="replace"))

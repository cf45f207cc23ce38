"""The state stored beside the batches: cursors, counts of lost rows, and the progress of retention."""

from __future__ import annotations

import sqlite3
import zlib
from dataclasses import dataclass, field

from lagwatch.journal.cursors import Cursor, load_cursor

_SINK, _DROPPED, _MARK = "sink:", "dropped:", "mark:"  # prefixes of keys in table `state`


@dataclass(slots=True)
class JournalState:
    """Held in memory, so that it survives a full disk, and written in the transaction of each change.

    `damaged` counts the entries of the file whose CRC did not match.
    """

    cursors: dict[str, Cursor] = field(default_factory=dict)
    dropped: dict[str, int] = field(default_factory=dict)
    marks: dict[str, int] = field(default_factory=dict)
    damaged: int = 0
    unsaved: set[str] = field(default_factory=set)

    def set_cursor(self, sink: str, cursor: Cursor) -> None:
        """Set the cursor of a sink."""
        self.cursors[sink] = cursor
        self.unsaved.add(_SINK + sink)

    def remove_cursor(self, sink: str) -> None:
        """Remove the cursor of a sink."""
        if self.cursors.pop(sink, None) is not None:
            self.unsaved.add(_SINK + sink)

    def count_dropped(self, reason: str, rows: int) -> None:
        """Add to the count of lost rows."""
        if rows:
            self.dropped[reason] = self.dropped.get(reason, 0) + rows
            self.unsaved.add(_DROPPED + reason)

    def set_mark(self, name: str, poll: int) -> None:
        """Record that a task is done up to and including this poll."""
        self.marks[name] = poll
        self.unsaved.add(_MARK + name)

    def skip_deleted(self, through: int) -> None:
        """Move the cursors past deleted polls, up to and including `through`."""
        for sink, cursor in self.cursors.items():
            if cursor.without(through) != cursor:
                self.set_cursor(sink, cursor.without(through))

    def reset_for_new_file(self, cursor: Cursor) -> None:
        """Adapt to a new, empty file: every sink continues at `cursor`, and everything has to be saved again."""
        self.marks.clear()
        self.cursors = dict.fromkeys(self.cursors, cursor)
        self.unsaved |= {_SINK + name for name in self.cursors}
        self.unsaved |= {_DROPPED + name for name in self.dropped}

    def joined(self, other: JournalState) -> JournalState:
        """This state, as loaded, with the sinks and lost rows that were recorded before it could be loaded."""
        for sink in other.cursors.keys() - self.cursors.keys():
            self.set_cursor(sink, other.cursors[sink])
        for reason, rows in other.dropped.items():
            self.count_dropped(reason, rows)
        return self

    def copy(self) -> JournalState:
        """A copy, to restore if a transaction fails."""
        return JournalState(dict(self.cursors), dict(self.dropped), dict(self.marks), self.damaged, set(self.unsaved))

    def save(self, connection: sqlite3.Connection) -> None:
        """Write the changes in the caller's transaction; the caller clears `unsaved` after the commit."""
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


def load_state(connection: sqlite3.Connection) -> JournalState:
    """The state in the file."""
    state = JournalState()
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
    # Includes the key, to detect a value stored under another name.
    return zlib.crc32(f"{key}\0{value}".encode(errors="replace"))

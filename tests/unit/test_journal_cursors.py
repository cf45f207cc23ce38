"""Cursors of sinks: the pure cursor, and the journal that stores them."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lagwatch.errors import JournalError
from lagwatch.journal import Cursor, Journal
from lagwatch.journal.cursors import load_cursor
from tests.harness.cursors import needs
from tests.harness.journal_batches import poll_batches


@pytest.mark.parametrize(
    ("cursor", "expected", "why"),
    [
        (Cursor(5).advanced(8), Cursor(8), "shipped up to 8"),
        (Cursor(5).advanced(3), Cursor(5), "a position never goes back"),
        (Cursor(5).jumped(9), Cursor(9, ((6, 9),)), "what was skipped is to be backfilled"),
        (Cursor(5).jumped(5), Cursor(5), "a jump to its own position is none"),
        (Cursor(9, ((6, 9),)).jumped(12), Cursor(12, ((6, 12),)), "a second jump in a row extends the range"),
        (Cursor(11, ((6, 9),)).jumped(12), Cursor(12, ((6, 9), (12, 12))), "one after some shipping makes another"),
        (Cursor(12, ((6, 9), (12, 12))).backfilled(7), Cursor(12, ((8, 9), (12, 12))), "oldest range first"),
        (Cursor(12, ((6, 9), (12, 12))).backfilled(9), Cursor(12, ((12, 12),)), "a range that is done goes"),
        (Cursor(12, ((6, 9),)).backfilled(3), Cursor(12, ((6, 9),)), "before the range there is nothing to do"),
        (Cursor(12, ((6, 9),)).without(7), Cursor(12, ((8, 9),)), "polls that are gone need no backfill"),
        (Cursor(5).without(7), Cursor(7), "nor does the live end wait for them"),
    ],
)
def test_a_cursor_moves(cursor: Cursor, expected: Cursor, why: str) -> None:
    assert cursor == expected, why


def test_a_cursor_needs_what_it_has_not_shipped() -> None:
    cursor = Cursor(10, ((3, 4), (7, 7)))
    assert [poll for poll in range(1, 13) if needs(cursor, poll)] == [3, 4, 7, 11, 12]
    assert cursor.first_needed == 3
    assert Cursor(10).first_needed == 11


@given(st.lists(st.tuples(st.sampled_from(["advanced", "jumped", "backfilled"]), st.integers(0, 60)), max_size=30))
def test_a_cursor_agrees_with_a_set_of_shipped_polls(moves: list[tuple[str, int]]) -> None:
    cursor, needed, live = Cursor(0), set(range(1, 61)), 0
    for name, poll in moves:
        cursor = getattr(cursor, name)(poll)
        if name == "backfilled":
            needed -= set(range(1, min(poll, live) + 1))
        elif poll > live:
            if name == "advanced":
                needed -= set(range(live + 1, poll + 1))
            live = poll
        assert {one for one in range(1, 61) if needs(cursor, one)} == needed
        assert load_cursor(cursor.dumps()) == cursor


def test_a_new_sink_starts_at_the_head_or_at_the_oldest_poll(tmp_path: Path) -> None:
    with Journal(tmp_path / "j.db") as journal:
        journal.append(poll_batches(1))
        assert journal.register_sink("influx") == Cursor(1)
        assert journal.register_sink("archive", start="oldest") == Cursor(0)


def test_cursors_survive_a_restart_and_registering_again_keeps_them(tmp_path: Path) -> None:
    with Journal(tmp_path / "j.db") as journal:
        journal.register_sink("influx")
        for number in range(1, 11):
            journal.append(poll_batches(number))
        journal.advance_live("influx", 3)
        journal.jump_live("influx", 8)
        journal.advance_backfill("influx", 5)
    with Journal(tmp_path / "j.db") as journal:
        assert journal.register_sink("influx") == Cursor(8, ((6, 8),))
        assert journal.stats().cursors["influx"].lag_polls == 5
        journal.unregister_sink("influx")
        with pytest.raises(JournalError, match='no sink "influx"'):
            journal.cursor("influx")
    with Journal(tmp_path / "j.db") as journal:
        assert journal.stats().cursors == {}


def test_a_sink_cannot_have_shipped_what_was_never_written(tmp_path: Path) -> None:
    with Journal(tmp_path / "j.db") as journal:
        journal.register_sink("influx")
        with pytest.raises(ValueError, match="cannot go to poll 1"):
            journal.advance_live("influx", 1)


def test_a_sink_whose_cursor_is_damaged_ships_everything_again(tmp_path: Path) -> None:
    with Journal(tmp_path / "j.db") as journal:
        journal.append(poll_batches(1))
        journal.register_sink("influx")
    with sqlite3.connect(tmp_path / "j.db") as connection:
        connection.execute("UPDATE state SET value = '[9000, []]' WHERE key = 'sink:influx'")
    connection.close()
    with Journal(tmp_path / "j.db") as journal:
        assert journal.register_sink("influx") == Cursor(0)

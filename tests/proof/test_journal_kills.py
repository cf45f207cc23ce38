"""A thousand kills at random moments: no acknowledged poll is lost, doubled or changed."""

from __future__ import annotations

import time
from pathlib import Path

from tests.harness.journal_kills import kill_again_and_again


def test_a_thousand_kills_lose_nothing(tmp_path: Path) -> None:
    started = time.monotonic()
    tally = kill_again_and_again(tmp_path / "journal.db", kills=1000, seed=20_240_601)
    print(
        f"\n{tally.kills} kills in {time.monotonic() - started:.0f} s: {tally.polls} polls written and checked, "
        f"{tally.unacknowledged} of them written but not acknowledged, {tally.deleted_by_retention} later trimmed"
    )
    assert tally.polls > 1000
    assert tally.deleted_by_retention > 500

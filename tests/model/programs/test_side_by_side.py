"""Programs against a slow model under snapshot isolation: whoever writes, compacts and cleans beside them."""

from __future__ import annotations

import os
from pathlib import Path

from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from tests.model.programs.side_by_side import Programs
from tests.support.sizes import WHOLE, sized

_IS_SEARCH = os.environ.get("HYPOTHESIS_PROFILE") == "search"
_RUNS = settings.default.max_examples if _IS_SEARCH else sized(short=6, whole=200)
_STEPS = 50 if _IS_SEARCH else 30
#: Answers without which so many runs have tried too little.
_WANTED = {
    "began again",
    "cleaned",
    "committed",
    "COMPACTED",
    "ended by others: LockLost",
    "ended while another waited",
    "failed, lost",
    "lock not granted",
    "lost at its commit",
    "lost before it looked",
    "refused after an overwrite",
}


def test_programs_see_what_snapshot_isolation_shows(empty_metastore: Path) -> None:
    """PROTOCOL 13, 14: several open transactions and readers, conflicts, time-outs, lost locks, compaction and cleaning.

    HYPOTHESIS_PROFILE=search makes thousands of runs.
    """
    Programs.empty_metastore = empty_metastore
    Programs.seen.clear()
    run_state_machine_as_test(Programs, settings=settings(max_examples=_RUNS, stateful_step_count=_STEPS))
    assert Programs.seen["committed"]
    if WHOLE or _IS_SEARCH:
        assert {answer for answer, times in Programs.seen.items() if times} >= _WANTED

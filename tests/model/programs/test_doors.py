"""The same histories through each door against plain tables; `make test-all` runs 5,000 for each, and prints its seed."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from hypothesis import Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.model.programs.doors import Door, PythonDoor, SqlDoor
from tests.model.programs.histories import Histories
from tests.support.sizes import WHOLE, sized

_HISTORIES = int(os.environ.get("HISTORIES", sized(short=3, whole=5000)))
_STEPS = sized(short=6, whole=15)

#: Without these so many histories have tried too little.
_REACHED = {"committed", "interrupted", "rolled back", "waited"}


@pytest.mark.parametrize("door", [PythonDoor, SqlDoor])
def test_a_door_does_what_plain_tables_do(empty_metastore: Path, door: type[Door]) -> None:
    """PROTOCOL 13, 14: all types, conditions, definitions, transactions, and pairs of statements at each of their steps.

    HISTORIES is the number of runs, HISTORIES_SEED the seed of a run that is to be repeated.
    """
    number = int(os.environ.get("HISTORIES_SEED", random.randrange(2**32) if WHOLE else 0))
    print(f"HISTORIES_SEED={number}")
    machine = type(door.__name__, (Histories,), {"empty_metastore": empty_metastore, "door_type": door})
    Histories.seen.clear()
    chosen = settings(
        max_examples=_HISTORIES,
        stateful_step_count=_STEPS,
        derandomize=False,
        database=None,
        deadline=None,
        phases=(Phase.generate, Phase.shrink),
    )
    run_state_machine_as_test(seed(number)(machine), settings=chosen)
    print(dict(Histories.seen))
    if WHOLE:
        assert {what for what, times in Histories.seen.items() if times} >= _REACHED

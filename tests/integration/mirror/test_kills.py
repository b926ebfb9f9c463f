"""Passes killed at every step: the next one repeats them, and no row is lost or doubled (PROTOCOL 15.8)."""

from __future__ import annotations

import random
import signal
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from compactor.base.errors import Refused
from compactor.base.steps import MirrorStep, TransactionStep
from compactor.cleaner.cleaner import clean
from compactor.mirror.mirrored_tables import run_mirrors
from compactor.mirror.retention import named_files
from compactor.site.deployment import configure, open_site
from tests.integration.mirror.conftest import numbered
from tests.integration.mirror.test_retention import files_of
from tests.support.forked import die, forked
from tests.support.mirrored import MirroredTable, with_catalog
from tests.support.passes import time_out_all
from tests.support.patience import PATIENCE
from tests.support.roles import die_at
from tests.support.tables import with_settings


def run_hasty_pass(url: str) -> None:
    """Runs a pass over all mirrors; older snapshots expire at once."""
    environment = {"COMPACTOR_METASTORE_URL": url}
    with open_site(configure(environment=environment, flags={"compactor.mirror.retention": "0h"})) as site:
        list(run_mirrors(with_catalog(site, Path(url.removeprefix("sqlite:///")).parent / "lake")))


_FEW = (MirrorStep.MIRROR_MAP_WRITTEN, MirrorStep.MIRROR_COMMITTED)


@pytest.mark.parametrize(
    "step", [pytest.param(step, marks=() if step in _FEW else pytest.mark.whole) for step in MirrorStep]
)
def test_a_pass_that_died_is_repeated(mirrored: MirroredTable, metastore_url: str, step: MirrorStep) -> None:
    mirrored.must_be_equal()
    mirrored.table.append(numbered(range(5, 8)))
    mirrored.table.delete("id = 1")
    before = mirrored.shown()
    die(run_hasty_pass, metastore_url, step)
    has_committed = step in (MirrorStep.MIRROR_COMMITTED, MirrorStep.MIRROR_EXPIRED)
    assert mirrored.shown() == (mirrored.expected() if has_committed else before)
    mirrored.must_be_equal()
    mirrored.table.append(numbered(range(8, 9)))
    hasty = replace(mirrored, site=with_settings(mirrored.site, compactor_mirror_retention="0h"))
    hasty.must_be_equal()
    assert files_of(mirrored) == named_files(mirrored.iceberg), "whatever died left no file"


_KILLS = 500


@pytest.mark.whole
def test_passes_killed_among_writers_compactions_and_cleaners(mirrored: MirroredTable, metastore_url: str) -> None:
    """Each pass dies at some step, or not, while somebody writes, compacts or cleans."""
    chance = random.Random(4711)
    killed = 0
    for turn in range(_KILLS):
        step = chance.choice([*MirrorStep, TransactionStep.SNAPSHOT_TAKEN])
        pass_ = forked(die_at, run_hasty_pass, metastore_url, f"{step.name}:1")
        pass_.start()
        for _ in range(2):
            happen(mirrored, chance, turn)
        pass_.join(PATIENCE)
        assert pass_.exitcode in (0, -signal.SIGKILL)
        if pass_.exitcode:
            killed += 1
            time_out_all(mirrored.site)  # nobody waits for the locks of the dead
        if turn % 5 == 4:
            mirrored.must_be_equal()
    mirrored.must_be_equal()
    assert killed > _KILLS // 3
    mirrored.table.append(numbered(range(1)))
    hasty = replace(mirrored, site=with_settings(mirrored.site, compactor_mirror_retention="0h"))
    hasty.must_be_equal()
    assert files_of(mirrored) == named_files(mirrored.iceberg)


def happen(mirrored: MirroredTable, chance: random.Random, turn: int) -> None:
    """Does something to the table."""
    first = chance.randrange(50)
    match chance.randrange(8):
        case 0 | 1 | 2:
            mirrored.table.append(numbered(range(first, first + chance.randrange(1, 4))))
        case 3:
            mirrored.table.delete(f"id = {first}")
        case 4:
            mirrored.table.update({"name": f"'turn {turn}'"}, f"id > {first} and id < {first + 5}")
        case 5 if chance.random() < 0.3:
            mirrored.table.overwrite(numbered(range(10)))
        case 6:
            with suppress(Refused):
                mirrored.table.compact(chance.choice(["minor", "major"]), here=True, wait=True)
        case 7:
            clean(mirrored.site)

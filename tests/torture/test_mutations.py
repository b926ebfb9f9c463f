"""Damaged files: refused by name, or what they hold comes out as they hold it; never a crash, a hang or 2 GB.

``TORTURE_MUTATIONS`` says how many files are damaged, ``TORTURE_SEED`` where to begin; seed n is the same damage for
everybody.
"""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import pytest

from tests.torture.anatomy import put_together, sections, take_apart
from tests.torture.mutations import mutate
from tests.torture.runs import GOOD, Report, torture
from tests.torture.victims import Victim, victims

COUNT = int(os.environ.get("TORTURE_MUTATIONS", "150"))
FIRST = int(os.environ.get("TORTURE_SEED", "0"))

#: What once killed the process, or hung it: swapped length streams, an index without entries, no block size, no version;
#: was refused without its file's name; or was read as what stood in memory by chance, since zstd's error was not heard.
ONCE_BAD = (118, 120, 583, 685, 918, 1146, 2011, 2057, 2838, 7672, 9311)


def test_damage_is_refused_or_changes_nothing(tmp_path: Path) -> None:
    """DESIGN 8.7: bad input ends in a clear error that names the file, with nothing lost."""
    report = torture(tmp_path, sorted({*ONCE_BAD, *range(FIRST, FIRST + COUNT)}))
    assert report.bad == []
    assert report.verdicts["refused"] > COUNT / 4, report.verdicts
    assert report.verdicts["same"] > COUNT / 8, report.verdicts
    assert report.verdicts["a reader died"] <= COUNT / 20, report.verdicts


@pytest.mark.parametrize("victim", victims(), ids=lambda victim: victim.name)
def test_a_victim_is_whole_and_every_kind_of_section_is_hit(victim: Victim) -> None:
    """Taken to pieces and put together it is the same file, as long as compression gives the same bytes."""
    parts = take_apart(victim.data)
    again = take_apart(put_together(parts))
    assert (again.footer.types, [s.streams for s in again.stripes]) == (
        parts.footer.types,
        [s.streams for s in parts.stripes],
    )
    found = sections(victim.data)
    assert (found[0].start, found[-1].end) == (0, len(victim.data))
    assert all(a.end <= b.start for a, b in itertools.pairwise(found))


def test_a_seed_is_one_mutation() -> None:
    data = victims()[0].data
    made = [mutate(data, seed) for seed in range(60)]
    assert made == [mutate(data, seed) for seed in range(60)]
    assert sum(mutation.data != data for mutation in made) > 55
    hit = {mutation.where.partition(" ")[0] for mutation in made}
    assert {"footer", "metadata", "tail", "stripe", "row"} <= hit


def test_a_report_knows_bad_from_good() -> None:
    report = Report()
    whole = {"step": "done", "seed": 1, "memory": 1, "names": [True]}
    for verdict in GOOD:
        report.take(whole | {"verdict": verdict}, "")
    report.take({"step": "compare"}, "exit code -11")
    assert report.bad == []
    report.take(whole | {"verdict": "other rows"}, "")
    report.take(whole | {"verdict": "same", "memory": 3 << 30}, "")
    report.take(whole | {"verdict": "refused", "names": [False]}, "")
    report.take({"step": "engine", "seed": 4}, "exit code -11")
    assert len(report.bad) == 4

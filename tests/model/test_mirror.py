"""Mirrors against the model: whatever was written, PyIceberg reads what the model shows (PROTOCOL 15).

The model's reader shares no code with the product, and PyIceberg none with either.
"""

from __future__ import annotations

import datetime
import os
import shutil
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compactor.base.errors import MirrorStopped
from compactor.mirror.catalogs import open_catalog
from compactor.mirror.mirror_pass import PassResult
from compactor.mirror.mirrored_tables import NewMirror, add_mirror, rebuild_mirror, run_mirrors
from compactor.site.deployment import configure, open_site
from compactor.site.site import Site
from tests.model import stories
from tests.model.files import Layout, Row, canonical
from tests.model.stories import (
    COMMIT,
    STAY_OPEN,
    AddColumn,
    Clean,
    Compact,
    Delete,
    Insert,
    Load,
    Settle,
    Story,
    Stream,
    Widen,
)
from tests.model.world import World
from tests.support.mirrored import with_catalog
from tests.support.sizes import sized
from tests.support.tables import with_settings

_STORIES = sized(short=5, whole=150)
EXAMPLES = settings.default.max_examples if os.environ.get("HYPOTHESIS_PROFILE") == "search" else _STORIES
_EPOCH = datetime.date(1970, 1, 1)
#: Times that Iceberg's readers show: days since 1582-10-15, and times that PyIceberg holds. Others have their own tests.
_VALUES = {
    "date": (0, -1, 18_000, -100_000, 2_900_000),
    "timestamp": ((0, 0), (1_600_000_000, 123_456_789), (-86_400, 0), (-6_000_000_000, 0), (9_000_000_000, 5_000)),
}


@dataclass(slots=True, kw_only=True)
class MirroredWorld:
    """A story's table, its mirror, and a site in which old snapshots expire at once in every other pass."""

    world: World
    site: Site
    passes: int = 0
    results: list[PassResult] = field(default_factory=list)
    rebuilt: int = 0

    def tell(self, story: Story, when: set[int]) -> None:
        """Plays the story, with a pass after each happening whose number is in ``when``, and after the last one."""
        for number, happening in enumerate(story.happenings):
            getattr(self.world, "do_" + type(happening).__name__.lower())(happening)
            if number in when:
                self.compare()
        self.compare()

    def run(self) -> None:
        self.passes += 1
        site = with_settings(self.site, compactor_mirror_retention="0h") if self.passes % 2 else self.site
        (outcome,) = run_mirrors(site)
        if outcome.error is not None:
            raise outcome.error
        assert outcome.result is not None
        self.results.append(outcome.result)

    def compare(self) -> None:
        """Runs a pass, and compares what PyIceberg reads with what the model shows of a snapshot of now."""
        try:
            self.run()
        except MirrorStopped:  # a type was widened as Iceberg cannot widen it
            rebuild_mirror(self.site, "default.t")
            self.rebuilt += 1
            self.run()
        assert self.shown() == self.expected()
        (outcome,) = run_mirrors(self.site)
        assert outcome.result is not None
        assert outcome.result.snapshot is None, "a second pass has nothing to do"

    def expected(self) -> list[Row]:
        rows = self.world.look().rows
        return sorted((tuple(map(_in_microseconds, row, self.world.columns)) for _, row in rows), key=repr)

    def shown(self) -> list[Row]:
        rows: pa.Table = open_catalog(self.site, "lake").load_table("default.t").scan().to_arrow()
        names = [f"c{place}" for place in range(len(self.world.columns))]
        assert rows.column_names == names
        cells = zip(*([_plain(value) for value in rows[name].to_pylist()] for name in names), strict=True)
        return sorted((canonical(row, self.world.columns) for row in cells), key=repr)


def _in_microseconds(value: Any, kind: str) -> Any:
    return (value[0], value[1] // 1000 * 1000) if kind == "timestamp" and value is not None else value


def _plain(value: Any) -> Any:
    """Returns a value of PyIceberg in the form of the model's."""
    if isinstance(value, datetime.datetime):
        since = value - datetime.datetime(1970, 1, 1)
        return since.days * 86_400 + since.seconds, since.microseconds * 1000
    if isinstance(value, datetime.date):
        return (value - _EPOCH).days
    return tuple(value.values()) if isinstance(value, dict) else value


def play(story: Story, when: set[int], empty_metastore: Path) -> MirroredWorld:
    """Plays a story with a mirror in a warehouse, metastore and catalog of its own."""
    with tempfile.TemporaryDirectory(dir=empty_metastore.parent) as folder, pytest.MonkeyPatch.context() as patch:
        for kind, values in _VALUES.items():
            patch.setitem(stories.VALUES, kind, values)
        shutil.copyfile(empty_metastore, Path(folder) / "metastore.db")
        environment = {
            "COMPACTOR_METASTORE_URL": f"sqlite:///{folder}/metastore.db",
            "COMPACTOR_WAREHOUSE": f"{folder}/warehouse",
        }
        with open_site(configure("default", environment=environment)) as opened:
            site = with_catalog(opened, Path(folder) / "lake")
            world = World.of(site, Path(folder) / "warehouse", story)
            mirrored = MirroredWorld(world=world, site=site)
            add_mirror(site, NewMirror(table="default.t", catalog="lake", timestamps="us"))
            mirrored.tell(story, when)
            return mirrored


@settings(max_examples=EXAMPLES)
@given(story=stories.stories(), when=st.sets(st.integers(0, 12)))
def test_pyiceberg_and_model_show_the_same(story: Story, when: set[int], empty_metastore: Path) -> None:
    play(story, when, empty_metastore)


_LAYOUT = Layout(stride=2, stripe_rows=3)
_INSERT = Insert(counts=(7, 4), seed=0, statements=2, deleted_again=1, end=COMMIT, layout=_LAYOUT)
_COMPACT = Compact(major=False, small_stripe_bytes=0, full_verify=False, any_readers=False)


@pytest.mark.parametrize(
    "when",
    [
        pytest.param(set(), id="at the end", marks=pytest.mark.whole),
        pytest.param(set(range(20)), id="always", marks=pytest.mark.whole),
        pytest.param({2, 5, 9}, id="sometimes"),
    ],
)
def test_a_story_with_all_that_there_is(empty_metastore: Path, when: set[int]) -> None:
    story = Story(
        columns=("int", "string", "timestamp", "char(4)"),
        originals=((0, 5), (0, 4), (1, 2)),
        original_layout=_LAYOUT,
        happenings=(
            _INSERT,
            Stream(ends=(COMMIT, STAY_OPEN, COMMIT), rows=3, seed=1, unflushed=40, layout=_LAYOUT),
            Delete(picks=(0, 3, 9, 15), misplaced=False, update=True, end=COMMIT, layout=_LAYOUT),
            Delete(picks=(1, 12), misplaced=True, update=False, end=COMMIT, layout=_LAYOUT),
            replace(_INSERT, end=STAY_OPEN),
            _COMPACT,
            Clean(),
            AddColumn("double"),
            Widen(0, 0),
            Settle(0, True),
            Load(count=5, seed=2, layout=_LAYOUT),
            Settle(0, True),
            replace(_COMPACT, major=True, full_verify=True),
            Clean(),
            Delete(picks=(2, 30), misplaced=False, update=True, end=COMMIT, layout=_LAYOUT),
        ),
    )
    mirrored = play(story, when, empty_metastore)
    assert mirrored.rebuilt == 0
    assert sum(result.rows for result in mirrored.results) > 40

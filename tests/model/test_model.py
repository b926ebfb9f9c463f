"""The engine against a slow and obvious reader and compactor: whatever was written, nobody sees a difference."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path

from hypothesis import given, settings

from compactor.site.deployment import configure, open_site
from tests.model.files import Event, Layout, write_acid, write_raw
from tests.model.reader import Snapshot, compacted, read_rows
from tests.model.stories import (
    ABORT,
    COMMIT,
    STAY_OPEN,
    AddColumn,
    Clean,
    Compact,
    Delete,
    EndReader,
    Insert,
    Load,
    OpenReader,
    Settle,
    Story,
    Stream,
    Widen,
    stories,
)
from tests.model.world import World, bucket
from tests.support.sizes import sized

_STORIES = sized(short=12, whole=50)  #: in an ordinary run; HYPOTHESIS_PROFILE=search plays thousands
EXAMPLES = settings.default.max_examples if os.environ.get("HYPOTHESIS_PROFILE") == "search" else _STORIES


def play(story: Story, empty_metastore: Path) -> Counter[str]:
    """Plays a story in a warehouse and metastore of its own."""
    with tempfile.TemporaryDirectory(dir=empty_metastore.parent) as folder:
        shutil.copyfile(empty_metastore, Path(folder) / "metastore.db")
        environment = {
            "COMPACTOR_METASTORE_URL": f"sqlite:///{folder}/metastore.db",
            "COMPACTOR_WAREHOUSE": f"{folder}/warehouse",
        }
        with open_site(configure("default", environment=environment)) as site:
            world = World.of(site, Path(folder) / "warehouse", story)
            world.tell(story)
            return world.seen


@settings(max_examples=EXAMPLES)
@given(story=stories())
def test_engine_and_model_show_the_same(story: Story, empty_metastore: Path) -> None:
    """DESIGN 8.1, PROTOCOL 1: for every snapshot valid before, during and after, minor or major, cleaned or not."""
    play(story, empty_metastore)


_PLAIN = Layout(stride=2, stripe_rows=3)
_INSERT = Insert(counts=(7, 4), seed=0, statements=2, deleted_again=1, end=COMMIT, layout=_PLAIN)
_COMPACT = Compact(major=False, small_stripe_bytes=0, full_verify=False, any_readers=False)


def story(*happenings: object, originals: tuple[tuple[int, int], ...] = ()) -> Story:
    return Story(
        columns=("int", "string", "timestamp"), originals=originals, original_layout=_PLAIN, happenings=happenings
    )


def test_a_story_with_all_that_there_is(empty_metastore: Path) -> None:
    """A minor and a major in one table while a reader of long ago goes on, then cleaning: drawn stories may miss it."""
    seen = play(
        story(
            _INSERT,
            Stream(ends=(COMMIT, ABORT, COMMIT), rows=3, seed=1, unflushed=40, layout=_PLAIN),
            OpenReader(),
            Delete(picks=(0, 3, 9, 15), misplaced=False, update=True, end=COMMIT, layout=_PLAIN),
            Delete(picks=(1, 12), misplaced=True, update=False, end=COMMIT, layout=_PLAIN),
            replace(_INSERT, end=ABORT),
            replace(_INSERT, end=STAY_OPEN),
            _COMPACT,
            Clean(),
            AddColumn("double"),
            Widen(0, 0),
            EndReader(0),
            Settle(0, True),
            Load(count=5, seed=2, layout=_PLAIN),
            Clean(),
            replace(_COMPACT, major=True, full_verify=True),
            Clean(),
            originals=((0, 5), (0, 4), (1, 2)),
        ),
        empty_metastore,
    )
    assert (seen["minor"], seen["major"], seen["cleaned"] > 0) == (1, 1, True), seen


def test_a_story_of_a_request_that_may_do_only_so_much(empty_metastore: Path) -> None:
    """PROTOCOL 1.2, 1.4, 5: chunk by chunk, by time and by bytes, around a delta that is too large for any of them."""
    layout = Layout(codec="NONE")
    insert = replace(_INSERT, statements=1, layout=layout)
    ordinary = [
        insert,
        replace(insert, seed=3),
        Delete(picks=(1, 12), misplaced=False, update=False, end=COMMIT, layout=layout),
        Stream(ends=(COMMIT, ABORT), rows=4, seed=1, unflushed=0, layout=layout),
        replace(insert, counts=(150, 150)),
        insert,
        insert,
    ]
    seen = play(
        story(
            *ordinary,
            replace(_COMPACT, chunk_bytes=4000),
            Clean(),
            insert,
            insert,
            replace(_COMPACT, chunk_bytes=4000, in_time=False),
            Clean(),
            *ordinary,
            replace(_COMPACT, max_bytes=9000, major=True),
            replace(_COMPACT, major=True),
        ),
        empty_metastore,
    )
    assert seen["chunks"] > 0, seen
    assert seen["left"] > 0, seen
    assert seen["major"] == 1, seen


def test_the_model_sees_what_it_is_told(tmp_path: Path) -> None:
    """The model itself, on a directory whose rows are known by hand: it shares nothing with the product."""
    insert = [Event(operation=0, key=(2, bucket(0, 0), n), current=2, row=(n,)) for n in range(3)]
    later = [Event(operation=0, key=(3, bucket(0, 0), 0), current=3, row=(9,))]
    delete = [Event(operation=2, key=(2, bucket(0, 0), 1), current=4, row=None)]
    write_raw(tmp_path / "000000_0", ["int"], [(7,)], _PLAIN)
    write_acid(tmp_path / "delta_0000002_0000002_0000" / "bucket_00000_0", ["int"], insert, _PLAIN)
    write_acid(tmp_path / "delta_0000003_0000003_0000" / "bucket_00000", ["int"], later, _PLAIN)
    write_acid(tmp_path / "delete_delta_0000004_0000004_0000" / "bucket_00000", ["int"], delete, _PLAIN)

    def values(watermark: int, opened: str = "", aborted: str = "") -> list[int]:
        snapshot = Snapshot.of("9:1::", f"default.t:{watermark}:1:{opened}:{aborted}")
        return sorted(row[0] for _, row in read_rows(tmp_path, snapshot, ["int"]))

    assert values(1) == [7]
    assert values(2) == [0, 1, 2, 7]
    assert values(4) == [0, 2, 7, 9]
    assert values(4, opened="3") == [0, 2, 7]
    assert values(4, aborted="4") == [0, 1, 2, 7, 9]

    snapshot = Snapshot.of("9:1::", "default.t:4:1::")
    minor = compacted(tmp_path, snapshot, major=False).directories
    assert {name: {n: len(events) for n, events in files.items()} for name, files in minor.items()} == {
        "delta_0000002_0000004": {0: 3}
    }
    major = compacted(tmp_path, snapshot, major=True).directories
    assert [e.row for e in major["base_0000004"][0]] == [(7,), (0,), (2,), (9,)]

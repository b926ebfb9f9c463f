"""Undoing whatever was compacted, against the model: nobody sees a difference (PROTOCOL 11.15)."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path

from hypothesis import given, settings

from compactor.base.errors import LockNotGranted, Refused
from compactor.requests.restore import restore
from compactor.site.deployment import configure, open_site
from compactor.site.site import own_state
from tests.model import stories
from tests.model.stories import COMMIT, Clean, Compact, Delete, Insert, Story
from tests.model.test_model import EXAMPLES
from tests.model.test_model import story as told
from tests.model.world import World
from tests.support.tables import with_settings


class Undoing(World):
    """After each cleaning, undoes whatever can be undone, newest first."""

    def do_clean(self, happening: stories.Clean) -> None:
        super().do_clean(happening)
        site = with_settings(self.site, hive_txn_opentxn_timeout="0ms", compactor_lock_wait="0ms")
        for one in sorted(own_state(site).quarantines.all(site.name), key=lambda one: -one.entry_id):
            before = sorted(path.name for path in self.location.iterdir() if not path.name.startswith("."))
            try:
                restore(site, "default.t", None, one.entry_id, "the story")
            except (Refused, LockNotGranted):
                after = sorted(path.name for path in self.location.iterdir() if not path.name.startswith("."))
                assert after == before
                self.seen["refused"] += 1
            else:
                self.seen["undone"] += 1
            self.look()
            self.compare("after an undo")


def play(story: Story, empty_metastore: Path) -> Counter[str]:
    """Plays a story in a warehouse and metastore of its own, where everything is kept for a week."""
    with tempfile.TemporaryDirectory(dir=empty_metastore.parent) as folder:
        shutil.copyfile(empty_metastore, Path(folder) / "metastore.db")
        environment = {
            "COMPACTOR_METASTORE_URL": f"sqlite:///{folder}/metastore.db",
            "COMPACTOR_WAREHOUSE": f"{folder}/warehouse",
        }
        with open_site(configure("default", environment=environment)) as site:
            world = Undoing.of(site, Path(folder) / "warehouse", story)
            site.metastore.embedded_catalog.set_table_parameter(world.table, "compactor.quarantine", "7d")
            world.tell(story)
            return world.seen


@settings(max_examples=EXAMPLES)
@given(story=stories.stories())
def test_nobody_sees_that_a_compaction_was_undone(story: Story, empty_metastore: Path) -> None:
    """DESIGN 8.1: whatever was written, compacted and cleaned before."""
    play(story, empty_metastore)


_INSERT = Insert(counts=(7, 4), seed=0, statements=2, deleted_again=1, end=COMMIT, layout=stories.Layout())
_COMPACT = Compact(major=False, small_stripe_bytes=0, full_verify=False, any_readers=False)


def test_a_story_in_which_each_kind_is_undone(empty_metastore: Path) -> None:
    """Stories that drawn ones may miss: a minor, a major over originals, chunks, and a pair, which is refused."""
    major = replace(_COMPACT, major=True)
    delete = Delete(picks=(0, 3, 9), misplaced=False, update=True, end=COMMIT, layout=stories.Layout())
    insert = replace(_INSERT, statements=1, deleted_again=0)
    seen = play(
        told(
            *(insert, insert, _COMPACT, Clean()),
            *(insert, insert, replace(_COMPACT, chunk_bytes=2000), Clean()),
            *(delete, major, Clean()),
            *(insert, delete, _COMPACT, Clean()),
            originals=((0, 5), (1, 2)),
        ),
        empty_metastore,
    )
    assert (seen["undone"], seen["chunks"]) == (3, 1), seen
    assert seen["refused"] >= 1, seen

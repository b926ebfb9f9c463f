"""Our programs and a live Hive 3.1.3 read, append to, change and compact the same tables, of every type, in turn."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.beside import Beside, side_by_side
from tests.support.hive3 import HIVE_3_1
from tests.support.live_hive import HiveError, placed
from tests.support.typed_tables import BY_ROW, SHAPES, Other, Shape, TypedTable, make_values, take_turns


@pytest.fixture(scope="module")
def both() -> Iterator[Beside]:
    """Yields both sides, running until this file's tests are done."""
    with placed(HIVE_3_1) as place, side_by_side(*place) as made:
        yield made


@pytest.fixture(scope="module")
def other(both: Beside) -> Other:
    make_values(both)
    return Other(run=lambda statement: both.hive.sql(statement), is_trino=False)


class OnHive3(TypedTable):
    """Hive 3.1's minor compaction of a table without buckets writes each delete event into every file, and then its own
    readers refuse the table (``Two readers for``). Our major compaction applies each once: Hive reads the table again."""

    def hive_compact(self, kind: str) -> None:
        super().hive_compact(kind)
        if kind == "minor" and "clustered" not in self.shape.clause:
            with pytest.raises(HiveError, match="Two readers for"):
                self.beside.hive.sql(f"select count(id) from {self.name}", BY_ROW)
            self.beside.clean_all()
            self.compact("major")

    def compact(self, kind: str) -> None:
        """Ours; a partition that was just mended may have nothing left for a minor."""
        done = self.beside.compact(self.name, kind)
        assert {one["fate"] for one in done} <= {"compacted", "clean_only"}, done


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_hive_3_and_our_programs_in_turn(beside: Beside, other: Other, shape: Shape) -> None:
    """PROTOCOL 14: on its schema, too, each sees what the other wrote, changes and compacts it, with the same ROW__IDs."""
    take_turns(OnHive3(beside=beside, other=other, shape=shape, name=f"typed_{shape.name}"))

"""Fixtures of Hive 3.1, Hive 4.1 and Trino under a live Hive and a live Trino, before and after our compactions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow.orc as orc
import pytest

from compactor.acid.names import Base, Delta, parse_directory
from compactor.batches.assembly import list_claimable_ids
from compactor.batches.driver import run_entries
from compactor.metastore.catalog.values import Table
from compactor.requests.request import request_compaction
from compactor.rewrite.run.runner import InProcessRunner
from compactor.worker.ending import Result
from compactor.worker.under_way import Options
from tests.support.beside import Beside
from tests.support.expected import as_hive_shows, difference, step
from tests.support.live_hive import Place
from tests.support.registered import register, table_name
from tests.support.servers import Server
from tests.support.trino import Trino
from tests.support.trino_rows import trino_lines

MINOR, MAJOR = "minor", "major"
#: Of each fixture a state with much in it that is not compacted or half so, and what we make of it.
STEPS = {
    "hive-3.1/f1_basic/s10_dml_over_base": MINOR,
    "hive-3.1/f2_part/s1_dml": MAJOR,
    "hive-3.1/f3_abort/s1_aborts": MAJOR,
    "hive-3.1/f4_stmtids/s1_merge": MINOR,
    "hive-3.1/f5_orig/s2_dml": MAJOR,
    "hive-3.1/f6_types/s1_dml": MAJOR,
    "hive-3.1/g1_nobucket/s3_dml_over_overwrite_base": MAJOR,
    "hive-3.1/g4_stripes/s1_dml": MAJOR,
    "hive-4.1/f1_basic/s8_major_done_not_cleaned": MINOR,
    "hive-4.1/f1_basic/s10_dml_over_base": MAJOR,
    "hive-4.1/f2_part/s1_dml": MINOR,
    "hive-4.1/f3_abort/s1_aborts": MINOR,
    "hive-4.1/f4_stmtids/s1_merge": MAJOR,
    "hive-4.1/f6_types/s1_dml": MINOR,
    "hive-4.1/g1_nobucket/s6_after_truncate": MAJOR,
    "hive-4.1/g4_stripes/s1_dml": MINOR,
    "hive-4.1/q1_query/s3_major_not_cleaned": MAJOR,
    "hive-4.1/r1_rebal/s5_minor_query": MAJOR,
    "hive-4.1/u1_union/s1_dml": MINOR,
    "trino-476/t1_basic/s7_more": MAJOR,
    "trino-476/t2_part/s3_delete_part_merge": MINOR,
    "trino-476/t4_bucket/s3_merge": MAJOR,
    "trino-476/t8_nobucket_multi/s1_trino_deletes": MINOR,
}
#: Where Trino shows rows too much until they are compacted: deletes of Hive 4's in ``bucket_00000_0``, and the rows
#: that a base of its TRUNCATE took away (docs/readers.md).
TRINO_SHOWS_MORE = frozenset(
    {
        "hive-4.1/f1_basic/s10_dml_over_base",
        "hive-4.1/f2_part/s1_dml",
        "hive-4.1/f3_abort/s1_aborts",
        "hive-4.1/f4_stmtids/s1_merge",
        "hive-4.1/f6_types/s1_dml",
        "hive-4.1/g1_nobucket/s6_after_truncate",
        "hive-4.1/g4_stripes/s1_dml",
        "hive-4.1/r1_rebal/s5_minor_query",
    }
)
#: Hive has compacted them, and what is left is to be cleaned.
_NOTHING_TO_MERGE = ("hive-4.1/f1_basic/s8_major_done_not_cleaned", "hive-4.1/q1_query/s3_major_not_cleaned")
_BY_BATCH, _BY_ROW = "main", "by row"


class Tables:
    """The fixtures' tables by their steps, and what each reader shows of them."""

    def __init__(self, beside: Beside, trino: Trino, folder: Path) -> None:
        self._beside, self._trino = beside, trino
        self._tables = {name: register(beside.site, step(name), folder, table_name(name)) for name in STEPS}

    def by_hive(self, session: str = _BY_BATCH) -> None:
        for name, table in self._tables.items():
            found = self._beside.hive.sql(f"select * from {table.name}", session)
            assert difference(as_hive_shows(name), found) == "", f"{name} by Hive, {session}"

    def by_trino(self, *, shows_more: frozenset[str] = frozenset()) -> None:
        for name, table in self._tables.items():
            differs = difference(as_hive_shows(name), trino_lines(self._trino, table))
            assert differs.startswith("missing 0: ") if name in shows_more else differs == "", f"{name}: {differs}"

    def compact(self) -> dict[str, set[Result]]:
        """The outcome of each table's requests, all done in one pass that copies stripes however small they are."""
        names = {table.name: name for name, table in self._tables.items()}
        for table, name in names.items():
            request_compaction(self._beside.site, table=f"default.{table}", type=STEPS[name])
        options = Options(small_stripe_bytes=1)
        done = run_entries(self._beside.site, list_claimable_ids(self._beside.site), InProcessRunner(), options)
        fates: dict[str, set[Result]] = {}
        for outcome in done.outcomes:
            fates.setdefault(names[outcome.entry.entity.table], set()).add(outcome.result)
        return fates

    def clean(self) -> None:
        self._beside.clean_all()

    def into_every_stripe(self) -> int:
        """A point predicate into every stripe of what we made of ``g4_stripes``, by every reader; how many."""
        asked = 0
        for name, table in self._tables.items():
            if "/g4_stripes/" in name:
                for key in self._one_key_of_each_stripe(table):
                    wanted = [line for line in as_hive_shows(name) if line.startswith(f"{key}\t")]
                    point = f"select * from {table.name} where {table.columns[0].name} = {key}"
                    for session in (_BY_BATCH, _BY_ROW):
                        assert self._beside.hive.sql(point, session) == wanted, (name, key, session)
                    assert ["\t".join(map(str, row)) for row in self._trino.sql(point)] == wanted, (name, key)
                    asked += 1
        return asked

    def _one_key_of_each_stripe(self, table: Table) -> Iterator[int]:
        """The first column's value in the last row of each stripe of inserts."""
        for directory in self._beside.directory(table.name).iterdir():
            acid = parse_directory(directory.name)
            if isinstance(acid, Base | Delta) and acid.visibility_txn_id:
                for path in sorted(directory.glob("bucket_*")):
                    with path.open("rb") as opened:
                        file = orc.ORCFile(opened)
                        for number in range(file.nstripes):
                            rows = file.read_stripe(number)["row"]
                            yield rows[len(rows) - 1][table.columns[0].name].as_py()


@pytest.fixture
def tables(beside: Beside, trino: Trino, place: tuple[Place, Server]) -> Tables:
    return Tables(beside, trino, place[0].folder / "fixtures")


def test_both_readers_show_the_same_before_and_after_ours(tables: Tables) -> None:
    """PROTOCOL 1, 2: what Hive 3.1, 4.1 or Trino wrote and we compacted, both read as its writer showed it.

    A count alone passes broken files: a point predicate goes into every stripe.
    """
    tables.by_hive()
    tables.by_trino(shows_more=TRINO_SHOWS_MORE)
    fates = tables.compact()
    assert all(Result.COMPACTED in fates[name] for name in STEPS if name not in _NOTHING_TO_MERGE), fates
    tables.by_hive()
    tables.by_hive(_BY_ROW)
    tables.by_trino()
    assert tables.into_every_stripe() >= 4
    tables.clean()
    tables.by_hive()
    tables.by_trino()

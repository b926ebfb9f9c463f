"""Tables that real Hives and a real Trino wrote, through worker and cleaner: rows and ROW__IDs stay as their writers showed
them.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from compactor.acid.directory import acid_directory
from compactor.acid.names import Base, parse_directory
from compactor.base.errors import Refused
from compactor.batches.assembly import list_claimable_ids
from compactor.batches.driver import run_entries
from compactor.cleaner.cleaner import clean
from compactor.compaction.queue_entry import Entity, Entry
from compactor.compaction.states import CompactionType, State
from compactor.metastore.catalog.values import Table
from compactor.orc.format.tail import read_tail
from compactor.orc.io.source import LocalSource
from compactor.requests.request import request_compaction
from compactor.rewrite.run.runner import InProcessRunner
from compactor.site.site import Site
from compactor.worker.ending import Result
from demo.fixtures import register_fixture
from demo.snapshot_reader import read_snapshot
from tests.support.expected import (
    Expected,
    by_turns,
    difference,
    plain_rows,
    read_expected,
    render_line,
    step,
    step_id,
    steps,
)
from tests.support.tables import with_settings
from tests.support.watching import names_in

#: Of Hive 2 what needs no major in Hive 2 before it is replaced (docs/before-hive-3.md).
OF_HIVE_2 = (
    "f1_basic/s1_insert",
    "f1_basic/s9_major_cleaned",
    "f6_types/s1_dml",
    "f7_v1/s3_major",
)
STEPS = [*(step(f"hive-2.3/{name}") for name in OF_HIVE_2), *steps("hive-3.1", "hive-4.1", "trino-476")]


@pytest.fixture
def site(deployment: Site) -> Site:
    """Ids count as settled after a millisecond, not after a second: a test needn't wait for its own commit."""
    return with_settings(deployment, hive_txn_opentxn_timeout="1ms")


def entities(site: Site, table: Table) -> list[Entity]:
    if not table.partition_keys:
        return [Entity(database=table.database, table=table.name)]
    return [
        Entity(database=table.database, table=table.name, partition=p.name)
        for p in site.metastore.catalog.partitions(table)
    ]


def look(site: Site, table: Table) -> list[tuple[Entity, pa.RecordBatch]]:
    """Returns what our reader shows now."""
    found = []
    for entity in entities(site, table):
        target = site.target(entity)
        txns = site.metastore.transactions.snapshot()
        write_ids = site.write_ids(table, txns)
        directory = acid_directory(site.storage.listing(target.location), write_ids, txns)
        found += [(entity, b) for b in read_snapshot(target.location, directory, write_ids, target.row_type)]
    return found


def rendered(
    site: Site, seen: list[tuple[Entity, pa.RecordBatch]], expected: Expected
) -> list[tuple[tuple[int, int, int], str]]:
    """Returns ROW__ID and line of every row, as Hive or Trino print it."""
    found = []
    for entity, batch in seen:
        partition = site.target(entity).partition
        values = partition.values if partition else ()
        found += [((r[0], r[1], r[2]), render_line(expected, r[3:], values)) for r in plain_rows(batch)]
    return found


def in_one(seen: list[tuple[Entity, pa.RecordBatch]]) -> pa.Table | None:
    """Returns the same rows as one sorted table; None where batches differ in their types."""
    try:
        together = pa.concat_tables(
            pa.Table.from_batches([b]).append_column("entity", pa.array([str(e)] * b.num_rows)) for e, b in seen
        )
    except pa.ArrowInvalid:
        return None
    return together.sort_by([(name, "ascending") for name in ("entity", "writeid", "bucketid", "rowid")])


#: Tables that were rendered and found right, by step: rendering takes longer than all the rest.
_RIGHT: dict[Path, pa.Table] = {}


def assert_shown(site: Site, table: Table, step: Path) -> None:
    """Asserts that our reader shows what Hive or Trino showed in ``step``."""
    seen = look(site, table)
    together = in_one(seen) if seen else None
    if together is not None and step in _RIGHT and together.equals(_RIGHT[step]):
        return
    expected = read_expected(step)
    assert difference([(tuple(k), v) for k, v in expected.row_ids], rendered(site, seen, expected)) == ""
    if together is not None:
        _RIGHT[step] = together


@pytest.mark.whole  # the test below begins with the same look
@pytest.mark.parametrize("step", STEPS, ids=step_id)
def test_our_reader_shows_what_the_writer_showed(site: Site, warehouse: Path, step: Path) -> None:
    table = register_fixture(site.metastore, step, warehouse)
    assert_shown(site, table, step)


@pytest.mark.parametrize(("step", "kind"), by_turns(STEPS, "minor", "major"))
def test_compaction_and_cleaning_change_nothing_that_is_shown(
    site: Site, warehouse: Path, step: Path, kind: str
) -> None:
    table = register_fixture(site.metastore, step, warehouse)
    clean(site)  # rows that the dump left ready for cleaning
    assert_shown(site, table, step)
    refused = ""
    try:
        request_compaction(site, table=f"{table.database}.{table.name}", type=kind)
    except Refused as error:
        refused = str(error)
    assert not refused or "already scheduled" in refused or "partitions" in refused
    done = run_entries(site, list_claimable_ids(site), InProcessRunner())
    assert [o.message for o in done.outcomes if o.result in (Result.FAILED, Result.LOST, Result.WAITING)] == []
    assert_shown(site, table, step)
    passed = clean(site)
    assert [w.because for w in (*passed.waiting, *passed.failed)] == []
    assert_shown(site, table, step)
    assert [e for e in site.metastore.entries.queue() if e.state is State.READY_FOR_CLEANING] == []
    for outcome in done.outcomes:
        if outcome.result is Result.COMPACTED:
            assert_written_strictly(site, site.metastore.entries.get(outcome.entry.id))


def assert_written_strictly(site: Site, entry: Entry) -> None:
    """DESIGN 4: only files that readers need, file names without attempt, side file, computed key index.

    A rebalance of Hive writes no side file, and its base may lie beside what was made.
    """
    location = Path(site.target(entry.entity).location)
    parsed = {location / name: parse_directory(name) for name in names_in(location)}
    made = [path for path, acid in parsed.items() if acid is not None and acid.visibility_txn_id == entry.txn_id]
    assert made, sorted(parsed)
    if entry.type is CompactionType.MAJOR:
        assert [type(acid) for acid in parsed.values()] == [Base]
    for path in made:
        assert (path / "_orc_acid_version").read_bytes() == b"2"
        data = sorted(path.glob("bucket_*"))
        assert data, "a directory is never empty of files (PROTOCOL 1.4)"
        for file in data:
            assert len(file.name) == len("bucket_00000"), file
            with LocalSource(file) as source:
                tail = read_tail(source)
            assert tail.is_acid
            assert tail.user_metadata["hive.acid.key.index"].count(b";") == len(tail.stripes)
            assert tail.user_metadata["hive.acid.version"] == b"2"
            assert tail.row_index_stride > 0

"""Tables that a real Hive 3.1 wrote, in a metastore with its schema: what it reads of our output is what it showed."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import delete, func, select, update

from compactor.acid.directory import acid_directory
from compactor.acid.names import CLAIM_PREFIX, METADATA_COMPACTED, METADATA_FILE, Base, parse_directory
from compactor.base.errors import Refused
from compactor.batches.assembly import list_claimable_ids
from compactor.batches.driver import run_entries
from compactor.cleaner.cleaner import clean
from compactor.compaction.queue_entry import Entity
from compactor.compaction.states import State
from compactor.metastore.catalog.values import Table
from compactor.metastore.metastore import Metastore
from compactor.metastore.schema.hive3 import NEXT_TXN_ID
from compactor.metastore.schema.tables import TXNS
from compactor.orc.format.tail import read_tail
from compactor.orc.io.source import LocalSource
from compactor.requests.request import request_compaction
from compactor.rewrite.run.runner import InProcessRunner
from compactor.settings.precedence import Settings
from compactor.site.site import Site
from compactor.state.state_database import OwnState
from compactor.storage.local import LocalStorage
from compactor.worker.ending import Result
from demo.fixtures import register_fixture
from demo.snapshot_reader import read_snapshot
from tests.support.expected import by_turns, difference, plain_rows, read_expected, render_line, step, steps
from tests.support.tables import with_settings

pytestmark = pytest.mark.usefixtures("one_hive3")


@pytest.fixture
def site(metastore: Metastore, state: OwnState) -> Site:
    bare = Site.here("default", metastore, state, LocalStorage(), Settings.of())
    return with_settings(bare, hive_txn_opentxn_timeout="1ms")


def registered(site: Site, path: Path, warehouse: Path) -> Table:
    """The step's table, in transaction tables as Hive 3.1 leaves them: no row of what committed."""
    table = register_fixture(site.metastore, path, warehouse)
    with site.metastore.database.write() as conn:
        largest = conn.execute(select(func.max(TXNS.c.TXN_ID))).scalar_one()
        conn.execute(update(NEXT_TXN_ID).values(NTXN_NEXT=largest + 1))
        conn.execute(delete(TXNS).where(TXNS.c.TXN_STATE == "c"))
    return table


def entities(site: Site, table: Table) -> list[Entity]:
    names = [p.name for p in site.metastore.catalog.partitions(table)] if table.partition_keys else [None]
    return [Entity(database=table.database, table=table.name, partition=name) for name in names]


def assert_shown(site: Site, table: Table, path: Path) -> None:
    """Our reader, to which without a suffix every directory is visible, shows what Hive showed in ``path``."""
    expected, found = read_expected(path), []
    for entity in entities(site, table):
        target = site.target(entity)
        txns = site.metastore.transactions.snapshot()
        write_ids = site.write_ids(table, txns)
        directory = acid_directory(site.storage.listing(target.location), write_ids, txns)
        values = target.partition.values if target.partition else ()
        for batch in read_snapshot(target.location, directory, write_ids, target.row_type):
            found += [((r[0], r[1], r[2]), render_line(expected, r[3:], values)) for r in plain_rows(batch)]
    assert difference([(tuple(key), line) for key, line in expected.row_ids], found) == ""


@pytest.mark.parametrize(("path", "kind"), by_turns(steps("hive-3.1"), "minor", "major"))
def test_compaction_and_cleaning_change_nothing_that_hive_3_shows(
    site: Site, tmp_path: Path, path: Path, kind: str
) -> None:
    table = registered(site, path, tmp_path)
    clean(site)  # rows that the dump left ready for cleaning
    assert_shown(site, table, path)
    try:
        request_compaction(site, table=str(table), type=kind)
    except Refused as error:
        assert "already scheduled" in str(error) or "partitions" in str(error)  # noqa: PT017 - both are right
    done = run_entries(site, list_claimable_ids(site), InProcessRunner())
    assert [o.message for o in done.outcomes if o.result in (Result.FAILED, Result.LOST, Result.WAITING)] == []
    assert_shown(site, table, path)
    passed = clean(site)
    assert [w.because for w in (*passed.waiting, *passed.failed)] == []
    assert_shown(site, table, path)
    assert [e for e in site.metastore.entries.queue() if e.state is State.READY_FOR_CLEANING] == []
    for outcome in done.outcomes:
        if outcome.result is Result.COMPACTED:
            assert_readable_by_hive_3(Path(site.target(outcome.entry.entity).location), outcome.output)


def assert_readable_by_hive_3(location: Path, made: tuple[str, ...]) -> None:
    """No suffix, no attempt in a file's name, the side files, and an exact key index, without which it cannot read."""
    assert len(made) == 1, "a pair would be shown by halves"
    for path in location.iterdir():
        acid = parse_directory(path.name)
        assert acid is not None or path.name[0].isdigit() or path.name.startswith(CLAIM_PREFIX), path
        assert acid is None or not acid.visibility_txn_id
    output = location / made[0]
    names = {path.name for path in output.iterdir()}
    is_base = isinstance(parse_directory(output.name), Base)
    assert {name for name in names if not name.startswith("bucket_")} == {"_orc_acid_version"} | (
        {METADATA_FILE} if is_base else set()
    )
    assert (output / "_orc_acid_version").read_bytes() == b"2"
    assert not is_base or (output / METADATA_FILE).read_bytes() == METADATA_COMPACTED
    data = sorted(output.glob("bucket_*"))
    assert data
    for file in data:
        assert len(file.name) == len("bucket_00000")
        with LocalSource(file) as source:
            tail = read_tail(source)
        assert tail.user_metadata["hive.acid.key.index"].count(b";") == len(tail.stripes)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("f1_basic/s7_more_dml", "f1_basic/s9_major_cleaned"),
        ("f1_basic/s10_dml_over_base", "f1_basic/s12_major_again"),
        ("f4_stmtids/s1_merge", "f4_stmtids/s3_major"),
        ("f5_orig/s2_dml", "f5_orig/s4_major"),
        ("f6_types/s1_dml", "f6_types/s2_major"),
        ("g4_stripes/s1_dml", "g4_stripes/s3_major"),
    ],
)
def test_a_major_leaves_what_hive_3s_own_leaves(before: str, after: str, site: Site, tmp_path: Path) -> None:
    """The same directory, files and side files, with the same rows in the same files."""
    table = registered(site, step(f"hive-3.1/{before}"), tmp_path)
    request_compaction(site, table=str(table), type="major")
    run_entries(site, list_claimable_ids(site), InProcessRunner())
    clean(site)
    hives = next(path for path in step(f"hive-3.1/{after}").iterdir() if path.is_dir())
    assert files(tmp_path / table.name) == files(hives)
    assert_shown(site, table, step(f"hive-3.1/{after}"))


def files(table: Path) -> dict[str, int | bytes]:
    """Rows of each data file, and the content of every other, but for the claim of our metastore."""
    found: dict[str, int | bytes] = {}
    for path in table.rglob("*"):
        if not path.is_file() or path.name.startswith(CLAIM_PREFIX):
            continue
        name = path.relative_to(table).as_posix()
        if not path.name.startswith("bucket_"):
            found[name] = path.read_bytes()
            continue
        with LocalSource(path) as source:
            rows = read_tail(source).rows
        if rows:
            found[name] = rows
    return found

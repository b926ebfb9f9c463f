"""One entry's fate; the rules of naming and of lost workers are in tests/integration/service."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import select, update

from compactor.acid.listing import Listing
from compactor.acid.names import staging_name
from compactor.base.ids import TxnId
from compactor.compaction.queue_entry import Entity, Request
from compactor.compaction.states import CompactionType, State
from compactor.metastore.catalog.embedded import NewTable
from compactor.metastore.catalog.values import Column, Table
from compactor.metastore.schema.tables import MIN_HISTORY_LEVEL, MIN_HISTORY_WRITE_ID, TXN_COMPONENTS, TXNS
from compactor.rewrite.run.runner import InProcessRunner
from compactor.site.site import Site
from compactor.storage.local import LocalStorage
from compactor.storage.protocol import NO_FILES
from compactor.worker.ending import Outcome, Result
from compactor.worker.under_way import Options
from tests.support.passes import clean_all, compact, with_storage, work
from tests.support.patience import until
from tests.support.tables import delete, entity_of, insert, make_table, rows_of, with_settings
from tests.support.watching import Interrupted, names_in


@pytest.fixture
def site(deployment: Site) -> Site:
    return with_settings(deployment, hive_txn_opentxn_timeout="1ms")


@pytest.fixture
def table(site: Site, warehouse: Path) -> Table:
    table = make_table(site, warehouse)
    insert(site, table, range(10))
    insert(site, table, range(10, 20))
    delete(site, table, [3])
    return table


def forced(site: Site, entity: Entity, kind: CompactionType = CompactionType.MAJOR) -> Outcome:
    """As a row that another tool put into the queue."""
    number = site.metastore.requests.request(Request(entity=entity, type=kind, initiator="x"))
    outcome = work(site, number, InProcessRunner(), Options())
    assert outcome is not None
    return outcome


def test_a_compaction_tells_what_it_did(site: Site, table: Table) -> None:
    outcome = compact(site, full=True)
    assert outcome.result is Result.COMPACTED
    assert outcome.output == (f"base_0000003_v{outcome.txn:07d}",)
    assert len(outcome.inputs) == 3
    assert (outcome.worker_id or "").startswith("compactor-worker-")
    assert outcome.seconds > 0
    f = outcome.figures
    assert (f.rows_in, f.rows_out, f.rows_deleted) == (20, 19, 1)
    (entry,) = site.metastore.entries.queue()
    assert (entry.state, entry.txn_id, entry.highest_write_id) == (State.READY_FOR_CLEANING, outcome.txn, 3)


@pytest.mark.parametrize("kind", ["minor", "major"])
def test_a_location_is_listed_twice_and_once_for_people(
    site: Site, table: Table, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """To plan, before the output is named (PROTOCOL 11.9), and to show what there is now: each costs most on far stores.

    Only the first compaction lists once more, when it claims the directory (PROTOCOL 11.13).
    """
    listed: list[str] = []
    listing = LocalStorage.listing

    def seen(self: LocalStorage, path: str) -> Listing:
        listed.append(path)
        return listing(self, path)

    monkeypatch.setattr(LocalStorage, "listing", seen)
    assert compact(site, kind).result is Result.COMPACTED
    assert listed.count(table.location) == 3 + 1


class _Staging(LocalStorage):
    """A store that tells of each directory before it makes it."""

    def __init__(self, told: Callable[[], None]) -> None:
        self._told = told

    def make_private(self, path: str, inside: Sequence[str] = ()) -> None:
        self._told()
        super().make_private(path, inside)


def test_what_the_row_says_while_its_units_run(site: Site, table: Table) -> None:
    """PROTOCOL 3.2: recorded, with its component, before anything is staged; under a shared lock."""
    looked: list[str] = []

    def look(when: str) -> None:
        (entry,) = site.metastore.entries.queue()
        assert entry.txn_id is not None
        assert site.metastore.transactions.state(entry.txn_id) == "o"
        assert (entry.state, entry.highest_write_id) == (State.WORKING, 3)
        assert entry.run_as
        (lock,) = site.metastore.locks.show()
        assert lock.type.name == "SHARED_READ"
        with site.metastore.database.read() as conn:
            components = conn.execute(select(TXN_COMPONENTS).where(TXN_COMPONENTS.c.TC_TXNID.in_([entry.txn_id]))).all()
            history = conn.execute(select(MIN_HISTORY_LEVEL.c.MHL_TXNID)).scalars().all()
        assert [(row.TC_OPERATION_TYPE, row.TC_WRITEID) for row in components] == [("c", 3)]
        assert history == [entry.txn_id]
        looked.append(when)

    watched = replace(site, storage=_Staging(partial(look, "staging")))
    assert compact(watched, runner=Interrupted(before=partial(look, "units"))).result is Result.COMPACTED
    assert looked[0] == "staging"
    assert "units" in looked
    assert site.metastore.locks.show() == []


def test_its_transaction_is_kept_alive_while_its_units_run(site: Site, table: Table) -> None:
    """PROTOCOL 3.2: heartbeats."""
    site = with_settings(site, hive_txn_opentxn_timeout="1ms", hive_txn_timeout="2s")

    def wait() -> None:
        with site.metastore.database.write() as conn:
            conn.execute(update(TXNS).where(TXNS.c.TXN_STATE == "o").values(TXN_LAST_HEARTBEAT=0))
        until("a heartbeat", lambda: site.metastore.transactions.open_transactions()[0].last_heartbeat)

    assert compact(site, runner=Interrupted(before=wait)).result is Result.COMPACTED


def test_what_a_dead_worker_staged_is_swept_also_where_hive_cleaned(site: Site, table: Table) -> None:
    """PROTOCOL 3.1: Hive's cleaner ends the row and leaves the staging directory; the next compaction there takes it."""
    done = compact(site)
    staged = Path(table.location) / staging_name(done.txn or TxnId(0))
    (staged / "out").mkdir(parents=True)  # as if its worker had died before it removed it
    (entry,) = site.metastore.entries.queue()
    site.metastore.cleaning.mark_cleaned(entry, (), all_below=False)
    insert(site, table, [100])
    assert compact(with_settings(site, compactor_mode="compact")).result is Result.COMPACTED
    assert not staged.exists()


@pytest.mark.parametrize(
    ("schema", "written", "used"),
    [
        *(("4.1.0", "true", True), ("4.1.0", "false", False), ("4.1.0", None, False)),
        *(("4.2.0", None, True), ("4.2.0", "false", False)),
    ],
)
def test_from_which_write_id_on_it_may_look(
    site: Site, table: Table, schema: str, written: str | None, used: bool
) -> None:
    """PROTOCOL 7.5: where Hive's cleaner goes by MIN_HISTORY_WRITE_ID, as that of 4.2 does by itself, it is told while units
    run."""
    site.metastore.schema_version = schema
    given = {} if written is None else {"hive_txn_use_minhistorywriteid": written}
    site = with_settings(site, hive_txn_opentxn_timeout="1ms", **given)
    rows: list[tuple[int, str]] = []

    def look() -> None:
        with site.metastore.database.read() as conn:
            rows.extend((row.MH_TXNID, row.MH_TABLE) for row in conn.execute(select(MIN_HISTORY_WRITE_ID)))

    outcome = compact(site, runner=Interrupted(before=look))
    assert rows == ([(outcome.txn, "t")] if used else [])


def test_what_is_not_proven_fails_and_gets_no_manifest(site: Site, table: Table) -> None:
    """PROTOCOL 4: a mismatch fails the request and leaves the table as it was; the manifest comes after."""
    written: list[str] = []
    before = names_in(Path(table.location))

    class Short(LocalStorage):
        """Says of what was staged that a byte is missing."""

        def adopt(self, path: str, files: Mapping[str, str | bytes] = NO_FILES, *, like: str) -> Mapping[str, int]:
            return {name: length - 1 for name, length in super().adopt(path, files, like=like).items()}

        def write(self, path: str, content: bytes) -> None:
            written.append(path)
            super().write(path, content)

    outcome = compact(with_storage(site, Short()))
    assert (outcome.result, "nothing was changed" in outcome.message) == (Result.FAILED, True)
    (row, *_) = site.metastore.entries.history()
    assert (row.id, row.state) == (outcome.entry.id, State.FAILED)
    assert names_in(Path(table.location)) == before
    assert [path for path in written if path.endswith("manifest.json")] == []


def test_nothing_to_merge_and_something_to_remove_is_the_cleaners(site: Site, table: Table) -> None:
    compact(site)
    clean_all(site)
    obsolete = Path(table.location) / "delta_0000001_0000001_0000"
    obsolete.mkdir()
    (obsolete / "bucket_00000").write_bytes(b"")
    outcome = forced(site, entity_of(table))
    assert outcome.result is Result.CLEAN_ONLY
    assert outcome.message
    clean_all(site)
    assert not obsolete.exists()


def test_nothing_to_do_at_all_is_refused_with_its_reason(site: Site, table: Table) -> None:
    wanted = rows_of(site, table)
    compact(site)
    clean_all(site)
    outcome = forced(site, entity_of(table))
    assert outcome.result is Result.REFUSED
    (row, *_) = site.metastore.entries.history()
    assert (row.state, row.error) == (State.REFUSED, outcome.message)
    assert rows_of(site, table) == wanted


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"parameters": {"transactional": "true"}, "input_format": "TextInputFormat"}, "expected the ORC input format"),
        ({"parameters": {"transactional": "true"}, "sort_columns": ("a",)}, "sorted"),
        ({"parameters": {}}, "not transactional"),
        ({"parameters": {"transactional": "true"}, "type": "EXTERNAL_TABLE"}, "is an external table"),
        ({"parameters": {"transactional": "true", "external": "TRUE"}}, "is an external table"),
    ],
)
def test_what_this_release_does_not_compact_is_refused_by_name(
    site: Site, warehouse: Path, changes: dict[str, object], said: str
) -> None:
    site.metastore.embedded_catalog.create_database("default", str(warehouse))
    (warehouse / "odd").mkdir()
    columns = [Column(name="a", type="int")]
    site.metastore.embedded_catalog.create_table(NewTable("default", "odd", str(warehouse / "odd"), columns, **changes))  # type: ignore[arg-type]
    outcome = forced(site, Entity(database="default", table="odd"))
    assert outcome.result in (Result.REFUSED, Result.FAILED)
    assert "default.odd" in outcome.message
    assert said in outcome.message
    assert names_in(warehouse / "odd") == set()
    assert site.metastore.entries.history()[0].error == outcome.message


def test_a_type_that_no_worker_does_is_refused_by_name(site: Site, table: Table) -> None:
    before = names_in(Path(table.location))
    outcome = forced(site, entity_of(table), CompactionType.ABORT_CLEANUP)
    assert outcome.result in (Result.REFUSED, Result.FAILED)
    assert "compaction is not done by a worker" in outcome.message
    assert names_in(Path(table.location)) == before


def test_an_entry_that_is_not_there_is_nobodys(site: Site, table: Table) -> None:
    assert work(site, 4711, InProcessRunner(), Options()) is None

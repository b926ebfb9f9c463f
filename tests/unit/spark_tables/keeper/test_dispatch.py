"""Statements and snapshots whose program goes away, or is idle."""

from __future__ import annotations

import copy
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from compactor.acid import txn_states
from compactor.base.errors import Refused, TransactionAborted
from compactor.metastore.locks.lock_rows import LockState
from compactor.site.site import Site
from compactor.spark_tables.driver_jvm import find_process
from compactor.spark_tables.keeper import dispatch
from compactor.spark_tables.keeper.dispatch import Dispatcher
from compactor.spark_tables.keeper.held_changes import SILENT_S, HeldStatements
from compactor.spark_tables.keeper_requests import (
    Active,
    BeginStatement,
    MetastorePlace,
    OpenSnapshot,
    PlanScan,
    ReadersOf,
    Release,
    TableReaders,
)
from compactor.tables.store import Store

PLACE = MetastorePlace(application="app")


@pytest.fixture
def store(deployment: Site, warehouse: Path) -> Store:
    made = Store(deployment)
    made.create_database("d", str(warehouse))
    for name in ("d.t", "d.u"):
        made.create_table(name, {"a": "int"}).append(pa.table({"a": [1]}))
    return made


def open_ones(site: Site) -> int:
    return sum(txn.state == txn_states.OPEN for txn in site.metastore.transactions.unfinished())


def test_a_statement_takes_all_locks_at_once_and_ends_when_its_program_is_silent(store: Store) -> None:
    """PROTOCOL 14.28."""
    now = 0.0
    statements = HeldStatements(lambda: now)
    request = BeginStatement(place=PLACE, targets=("d.t",), overwrites=True, reads=("d.u", "d.t"))
    name = statements.begin(store.site, "app", request)
    locks = store.site.metastore.locks.show()
    assert {(lock.table, lock.type.name, lock.state) for lock in locks} == {
        ("t", "EXCL_WRITE", LockState.ACQUIRED),
        ("u", "SHARED_READ", LockState.ACQUIRED),
    }
    assert len({lock.id for lock in locks}) == 1
    now = SILENT_S - 1
    assert statements.renew(name)
    now = 2 * SILENT_S - 2
    statements.abort_lost()
    assert statements.must_find_transaction(name)
    now = 2 * SILENT_S
    statements.abort_lost()
    assert not statements.renew(name)
    with pytest.raises(TransactionAborted, match="begin it again"):
        statements.must_find_transaction(name)
    assert open_ones(store.site) == 0


def test_targets_are_named_once(store: Store) -> None:
    with pytest.raises(Refused, match="named twice"):
        HeldStatements().begin(store.site, "app", BeginStatement(place=PLACE, targets=("d.t", "D.T")))
    assert open_ones(store.site) == 0


class Watch:
    """A clock that a test sets."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def watch() -> Watch:
    return Watch()


@pytest.fixture
def dispatcher(store: Store, watch: Watch, monkeypatch: pytest.MonkeyPatch) -> Iterator[Dispatcher]:
    monkeypatch.setattr(dispatch, "open_deployment", lambda *_, **__: _Opened(store.site))
    with Dispatcher(watch) as dispatcher:
        yield dispatcher


class _Opened:
    def __init__(self, site: Site) -> None:
        self._site = site

    def __enter__(self) -> Site:
        return self._site

    def __exit__(self, *_: object) -> None:
        pass


def test_the_readers_of_a_table_are_known_until_they_are_let_go(dispatcher: Dispatcher, store: Store) -> None:
    """PROTOCOL 13.8."""
    scans = [dispatcher.answer(PlanScan(place=PLACE, table=table)) for table in ("d.t", "d.T", "d.u")]
    named = dispatcher.answer(OpenSnapshot(place=PLACE))
    dispatcher.answer(PlanScan(place=PLACE, table="d.t", snapshot=named))
    readers = dispatcher.answer(ReadersOf(place=PLACE, table="d.T"))
    assert isinstance(readers, TableReaders)
    assert len(readers.txns) == 3
    for scan in scans:
        dispatcher.answer(Release(snapshot=scan.hold.name))
    assert len(dispatcher.answer(ReadersOf(place=PLACE, table="d.t")).txns) == 1
    assert dispatcher.answer(ReadersOf(place=PLACE, table="d.u")) == TableReaders(txns=())


def test_readers_of_a_table_are_those_in_its_metastore(
    dispatcher: Dispatcher, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PROTOCOL 13.8: two configurations may give two metastores one name."""
    other = replace(store.site, metastore=copy.copy(store.site.metastore))
    monkeypatch.setattr(
        dispatch, "open_deployment", lambda name, config_path: _Opened(other if config_path else store.site)
    )
    dispatcher.answer(PlanScan(place=MetastorePlace(config="other.toml"), table="d.t"))
    assert dispatcher.answer(ReadersOf(place=MetastorePlace(), table="d.t")) == TableReaders(txns=())
    assert len(dispatcher.answer(ReadersOf(place=MetastorePlace(config="other.toml"), table="d.t")).txns) == 1


def test_a_process_that_has_ended_reads_no_table(dispatcher: Dispatcher) -> None:
    """PROTOCOL 13.8: such as that of a stream, which Spark kills when its query ends."""
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as started:
        dispatcher.answer(PlanScan(place=PLACE, table="d.t", reader=find_process(started.pid)))
        assert len(dispatcher.answer(ReadersOf(place=PLACE, table="d.t")).txns) == 1
    assert dispatcher.answer(ReadersOf(place=PLACE, table="d.t")) == TableReaders(txns=())


def test_snapshots_of_frames_end_when_their_program_is_idle(dispatcher: Dispatcher, store: Store, watch: Watch) -> None:
    """PROTOCOL 13.8."""
    dispatcher.answer(PlanScan(place=PLACE, table="d.t"))
    dispatcher.answer(OpenSnapshot(place=PLACE))
    watch.now = 3599.0
    dispatcher.answer(Active())
    watch.now = 7198.0
    dispatcher.release_lost()
    assert open_ones(store.site) == 2
    watch.now = 7199.0
    dispatcher.release_lost()
    assert open_ones(store.site) == 1

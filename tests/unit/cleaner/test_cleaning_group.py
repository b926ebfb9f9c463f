"""Entries that are cleaned together: each fails, waits and is lost alone."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from compactor.base.errors import DatabaseUnavailable, StorageError
from compactor.batches.assembly import list_claimable_ids
from compactor.batches.driver import run_entries
from compactor.cleaner.cleaner import clean
from compactor.cleaner.cleaner_pass import CleanerPass
from compactor.compaction.states import State
from compactor.metastore.catalog.values import Table
from compactor.metastore.queue.cleaning_rows import Cleaning
from compactor.requests.request import request_compaction
from compactor.rewrite.run.runner import InProcessRunner
from compactor.site.site import Site
from compactor.storage.local import LocalStorage
from tests.support.kept_tables import KeptTables
from tests.support.many import make_partitions
from tests.support.passes import lose_cleaners, settle, with_storage
from tests.support.tables import with_settings
from tests.support.watching import names_in

PARTITIONS = 4


@pytest.fixture(params=["1", "8"], ids=["one thread", "threads"])
def site(deployment: Site, request: pytest.FixtureRequest) -> Site:
    return with_settings(deployment, hive_txn_opentxn_timeout="1ms", hive_compactor_cleaner_threads_num=request.param)


@pytest.fixture
def table(site: Site, warehouse: Path, kept_tables: KeptTables) -> Table:
    """A table with four partitions that are ready for cleaning."""
    table = kept_tables.get(site, warehouse, make_ready)
    settle()
    return table


def make_ready(site: Site, warehouse: Path) -> Table:
    table = make_partitions(site.metastore, warehouse, PARTITIONS, deltas=3, name="parted")
    request_compaction(site, table=str(table), type="major")
    assert run_entries(site, list_claimable_ids(site), InProcessRunner()).failed == ()
    return table


def partition(table: Table, number: int) -> Path:
    return Path(table.location) / f"p={number:06d}"


class At(LocalStorage):
    """Calls ``act`` once, before the first rename in the directory ``place``."""

    def __init__(self, place: Path, act: Callable[[], object]) -> None:
        super().__init__()
        self._place, self._act, self._once = str(place), act, threading.Lock()

    def rename_each(self, path: str, names: Mapping[str, str]) -> Iterator[str]:
        if path.startswith(self._place) and self._once.acquire(blocking=False):
            self._act()
        return super().rename_each(path, names)


def test_one_that_fails_holds_up_no_other(site: Site, table: Table) -> None:
    class Stuck(LocalStorage):
        def rename_each(self, path: str, names: Mapping[str, str]) -> Iterator[str]:
            for old, new in names.items():
                if f"{path}/{old}".endswith("p=000002/delta_0000002_0000002_0000"):
                    raise StorageError(f"cannot rename {path}/{old}")
                yield from super().rename_each(path, {old: new})

    passed = clean(with_storage(site, Stuck()))
    assert [str(one.entity) for one in passed.failed] == ["default.parted/p=000002"]
    assert len(passed.cleaned) == PARTITIONS - 1
    (left,) = site.metastore.entries.queue()
    assert (left.state, left.entity.partition) == (State.READY_FOR_CLEANING, "p=000002")


def test_directories_come_back_if_another_cleaner_ended_the_entry_while_they_were_hidden(
    site: Site, table: Table
) -> None:
    """PROTOCOL 11.8.3: an undo may have brought them back."""
    before = names_in(partition(table, 1))
    entry = next(one for one in site.metastore.entries.queue() if one.entity.partition == "p=000001")

    def ended() -> None:
        site.metastore.cleaning.mark_cleaned(entry, (), all_below=False)

    passed = clean(with_storage(site, At(partition(table, 1), ended)))
    assert names_in(partition(table, 1)) == before
    assert (len(passed.cleaned), passed.failed) == (PARTITIONS - 1, ())


def test_directories_come_back_if_nobody_can_tell(site: Site, table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """PROTOCOL 11.8.3: what was hidden is looked up again before it counts."""
    before = {number: names_in(partition(table, number)) for number in range(PARTITIONS)}
    hidden = threading.Event()
    real = Cleaning.still_ready

    def away(self: Cleaning, entries: object) -> frozenset[int]:
        if hidden.is_set():
            raise DatabaseUnavailable("the database is away")
        return real(self, entries)  # type: ignore[arg-type]

    monkeypatch.setattr(Cleaning, "still_ready", away)
    passed = clean(with_storage(site, At(partition(table, 0), hidden.set)))
    assert len(passed.failed) == PARTITIONS
    assert {number: names_in(partition(table, number)) for number in range(PARTITIONS)} == before


def test_several_cleaners_take_no_entries_of_each_other(site: Site, table: Table) -> None:
    """One that is at work while another begins leaves that nothing to do; its entries are not looked at twice."""
    second: list[CleanerPass] = []
    passed = clean(with_storage(site, At(partition(table, 0), lambda: second.append(clean(site)))))
    ((*cleaned,), (*waiting,)) = second[0].cleaned, second[0].waiting
    assert (cleaned, waiting) == ([], [])
    assert (len(passed.cleaned), passed.failed) == (PARTITIONS, ())


def test_one_cleaner_goes_on_with_what_another_left(site: Site, table: Table) -> None:
    """A cleaner that died has its entries until hive.txn.timeout has passed."""
    entries = site.metastore.entries.queue()
    assert site.metastore.cleaning.take(entries[:2], 1000) == entries[:2]
    assert [one.entry_id for one in clean(site).cleaned] == [entry.id for entry in entries[2:]]
    lose_cleaners(site)
    assert [one.entry_id for one in clean(site).cleaned] == [entry.id for entry in entries[:2]]


def test_an_interrupted_cleaner_lets_its_entries_go(site: Site, table: Table) -> None:
    class Interrupted(LocalStorage):
        def sync_names(self, paths: object) -> dict[str, StorageError]:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        clean(replace(site, storage=Interrupted()))
    assert len(clean(site).cleaned) == PARTITIONS

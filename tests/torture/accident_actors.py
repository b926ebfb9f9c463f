"""The processes of a site whose world has accidents.

Each runs until it is killed. Storage fails now and then under every role, as a network file system does.
"""

from __future__ import annotations

import errno
import itertools
import json
import os
import random
import shutil
import sys
import time
import traceback
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import redirect_stderr, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from compactor.acid.directory import acid_directory
from compactor.base.errors import (
    CommitUnknown,
    CompactorError,
    DatabaseUnavailable,
    LockNotGranted,
    NotFound,
    StorageError,
)
from compactor.base.ids import TxnId
from compactor.batches.assembly import list_claimable_ids
from compactor.batches.driver import run_entries
from compactor.cleaner.cleaner import clean
from compactor.housekeeper.housekeeper import keep_house
from compactor.initiator.initiator import initiate
from compactor.metastore.catalog.values import Table
from compactor.requests.request import request_compaction
from compactor.rewrite.run.runner import InProcessRunner
from compactor.site.deployment import configure, open_site
from compactor.site.exclusive import exclusively
from compactor.site.site import Site
from compactor.storage.local import LocalStorage
from demo.snapshot_reader import read_snapshot
from tests.support.partitioned import add_partition, insert_into, make_partitioned
from tests.support.passes import with_storage
from tests.support.tables import delete, entity_of, insert, make_table

SETTINGS = {
    "compactor.mode": "clean",
    "hive.txn.timeout": "4s",
    "hive.txn.opentxn.timeout": "50ms",
    "hive.compactor.delta.num.threshold": "3",
    "hive.compactor.abortedtxn.threshold": "1",
    "compactor.lock.wait": "2s",
    "hive.compactor.cleaner.retry.retention.time": "1s",
    "hive.compactor.initiator.failed.compacts.threshold": "0",
}
STEADY, UNSTEADY = "steady", "unsteady"  #: the second is dropped or renamed, and made again, all the time
RENAMED, PARTED = "renamed", "parted"  #: what the second is renamed to; and one whose partitions move
ERRORS = (errno.ENOENT, errno.ESTALE, errno.EIO)
FAULTS = 0.004  #: the share of calls that fail


class Faulty(LocalStorage):
    """A stale or damaged file system, on which a call fails now and then; which, depends on the seed."""

    def __init__(self, chance: random.Random) -> None:
        super().__init__()
        self._chance = chance

    def _fail(self, what: str, path: str) -> None:
        if self._chance.random() < FAULTS:
            raise StorageError(f"{path}: cannot {what}: {os.strerror(self._chance.choice(ERRORS))}")

    def listing(self, path: str) -> Any:
        self._fail("list", path)
        return super().listing(path)

    def children(self, path: str, prefix: str = "") -> tuple[str, ...]:
        self._fail("list", path)
        return super().children(path, prefix)

    def tree(self, path: str) -> Any:
        self._fail("list", path)
        return super().tree(path)

    def read(self, path: str) -> bytes:
        self._fail("read", path)
        return super().read(path)

    def length(self, path: str) -> int:
        self._fail("look at", path)
        return super().length(path)

    def descriptor(self, path: str) -> int | None:
        self._fail("open", path)
        return super().descriptor(path)

    def write(self, path: str, content: bytes) -> None:
        self._fail("write", path)
        super().write(path, content)

    def rename(self, source: str, target: str, *, durable: bool = True) -> None:
        self._fail("rename", source)
        super().rename(source, target, durable=durable)
        self._fail("rename", source)  # it has happened, and the answer is lost

    def rename_each(self, path: str, names: Mapping[str, str]) -> Iterator[str]:
        for old, new in names.items():
            self._fail("rename", f"{path}/{old}")
            for renamed in super().rename_each(path, {old: new}):
                self._fail("rename", f"{path}/{old}")  # it has happened, and the answer is lost
                yield renamed

    def remove(self, path: str, *, durable: bool = True) -> None:
        self._fail("remove", path)
        super().remove(path, durable=durable)

    def remove_all(self, paths: Collection[str], *, durable: bool = True) -> Mapping[str, StorageError]:
        failed: dict[str, StorageError] = {}
        for path in paths:
            try:
                self._fail("remove", path)
            except StorageError as error:
                failed[path] = error
        return {**failed, **super().remove_all([path for path in paths if path not in failed], durable=durable)}


class Journal:
    """The writes that a writer begins to commit and those that it knows to be committed, one line each, for the judge."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", buffering=1)

    def __call__(self, *line: object) -> None:
        self._file.write(json.dumps(line) + "\n")


def writer(site: Site, folder: Path, chance: random.Random) -> None:
    """Inserts new values into the steady table and deletes some of its own."""
    table = site.metastore.catalog.table("default", STEADY)
    own = number_of_its_own(folder)
    say, mine = Journal(folder / f"journal-{own}"), list[int]()
    for number in itertools.count():
        if mine and chance.random() < 0.3:
            kind, values = "delete", chance.sample(mine, min(len(mine), 3))
        else:
            first = own * 10_000 + number * 10
            kind, values = "insert", list(range(first, first + chance.randint(1, 9)))
        say("try", kind, values)
        try:
            if kind == "insert":
                insert(site, table, values, commits=chance.random() > 0.15 or bool(say("abort")))
            else:
                delete(site, table, values)
        except (CompactorError, ValueError) as error:  # a delete that sees no rows at all is a ValueError of pyarrow
            say("failed", str(error)[:200])
            continue
        say("done")
        mine = [*mine, *values] if kind == "insert" else [v for v in mine if v not in values]


def number_of_its_own(folder: Path) -> int:
    """Process ids come again; these numbers don't."""
    for number in itertools.count():
        with suppress(FileExistsError):
            (folder / f"number-{number}").touch(exist_ok=False)
            return number
    raise AssertionError("numbers do not end")


def reader(site: Site, folder: Path, chance: random.Random) -> None:
    """Holds a snapshot for a while; whatever happens meanwhile, it reads the same rows at its end."""
    table = site.metastore.catalog.table("default", STEADY)
    while True:
        (txn,) = site.metastore.transactions.open("reader", "h")
        try:
            held = Held(site, table, txn)
            first = held.values()
            for _ in range(chance.randint(1, 4)):
                time.sleep(chance.random())
                site.metastore.transactions.heartbeat(txn)
                again = held.values()
                if again != first:
                    (folder / f"differs-{os.getpid()}-{txn}").write_text(f"{sorted(set(first) ^ set(again))[:9]}")
        except CompactorError:
            pass  # it timed out while it was suspended
        finally:
            with suppress(CompactorError):
                site.metastore.transactions.commit(txn)


class Held:
    """A snapshot of a table, as one statement holds it from its beginning to its end."""

    def __init__(self, site: Site, table: Table, txn: TxnId) -> None:
        self._target = site.target(entity_of(table))
        self._txns = site.metastore.transactions.snapshot(txn)
        self._write_ids = site.write_ids(table, self._txns)

    def values(self) -> list[int]:
        """Lists the directory now, on a file system without faults, and returns the values that the snapshot sees."""
        location, row_type = self._target.location, self._target.row_type
        directory = acid_directory(LocalStorage().listing(location), self._write_ids, self._txns)
        batches = read_snapshot(location, directory, self._write_ids, row_type)
        return sorted(row["a"] for batch in batches for row in batch.to_pylist())


def ddl(site: Site, folder: Path, chance: random.Random) -> None:
    """Drops or renames a table and makes it again at the same place, with deltas of the same names; adds and renames
    partitions of another."""
    while True:
        renames = chance.random() < 0.5
        attempt(lambda renames=renames: make_again(site, folder, renames=renames))
        attempt(lambda: move_partitions(site, folder))
        time.sleep(chance.random() * 3)


def make_again(site: Site, folder: Path, *, renames: bool) -> None:
    """Its values are in ``unsteady`` as soon as they are certain, those of the one that it was in ``renamed``."""
    place = folder / "warehouse" / UNSTEADY
    if renames and (folder / UNSTEADY).exists():
        drop(site, folder, RENAMED)
        rename(site, folder)
    drop(site, folder, UNSTEADY)
    table = make_table(site, place.parent, UNSTEADY)
    values: list[int] = []
    for start in range(0, 50, 10):
        try:
            insert(site, table, range(start, start + 10))
        except (CommitUnknown, DatabaseUnavailable):
            raise
        except CompactorError:
            continue
        values += range(start, start + 10)
    (folder / UNSTEADY).write_text(json.dumps(values))


def drop(site: Site, folder: Path, name: str) -> None:
    """Drops a table, with its files."""
    (folder / name).unlink(missing_ok=True)
    with suppress(NotFound):  # whoever was killed in between left none
        site.metastore.embedded_catalog.drop_table(site.metastore.catalog.table("default", name))
    while (folder / "warehouse" / name).exists():
        shutil.rmtree(folder / "warehouse" / name, ignore_errors=True)


def rename(site: Site, folder: Path) -> None:
    """Renames the unsteady table and moves its directory, as Hive's RENAME of a managed table does: under an exclusive lock,
    and not at all if that is not granted at once."""
    old, new = folder / "warehouse" / UNSTEADY, folder / "warehouse" / RENAMED
    table = site.metastore.catalog.table("default", UNSTEADY)
    with exclusively(site, site.target(entity_of(table))):
        values = (folder / UNSTEADY).read_text()
        (folder / UNSTEADY).unlink()
        old.rename(new)
        site.metastore.embedded_catalog.rename_table(table, RENAMED, location=str(new))
        (folder / RENAMED).write_text(values)


def move_partitions(site: Site, folder: Path) -> None:
    """Adds a partition, or gives one another name, and inserts into all of them. Their values are in ``parted``; after a
    failure, when nobody knows them, the table is made again."""
    known = folder / PARTED
    values: list[int] | None = json.loads(known.read_text()) if known.exists() else None
    if values is None:
        drop(site, folder, PARTED)
        make_partitioned(site, folder / "warehouse", PARTED)
        values = []
    known.unlink(missing_ok=True)
    table, number = site.metastore.catalog.table("default", PARTED), number_of_its_own(folder)
    parts = site.metastore.catalog.partitions(table)
    if len(parts) < 3:
        add_partition(site, table, number)
    else:
        target = site.target(replace(entity_of(table), partition=parts[number % 3].name))
        with suppress(LockNotGranted), exclusively(site, target):
            site.metastore.embedded_catalog.rename_partition(table, parts[number % 3].name, [str(number)])
    for at, part in enumerate(site.metastore.catalog.partitions(table)):
        new = [number * 100 + at * 10 + n for n in range(3)]
        insert_into(site, table, part.values[0], new, location=Path(part.location))
        values += new
    known.write_text(json.dumps(values))


def worker(site: Site, _folder: Path, chance: random.Random) -> None:
    while True:
        for table in (STEADY, UNSTEADY):
            if chance.random() < 0.1:
                attempt(lambda name=table: request_compaction(site, table=f"default.{name}", type="major"))
        attempt(lambda: initiate(site))
        attempt(lambda: run_entries(site, list_claimable_ids(site), InProcessRunner()))
        time.sleep(0.05)


def cleaner(site: Site, _folder: Path, _chance: random.Random) -> None:
    while True:
        attempt(lambda: clean(site))
        time.sleep(0.05)


def housekeeper(site: Site, _folder: Path, _chance: random.Random) -> None:
    while True:
        attempt(lambda: keep_house(site))
        time.sleep(0.3)


def attempt(act: Callable[[], object]) -> None:
    """A pass that ends with an error of ours begins again, as a schedule does it; any other error ends the process."""
    try:
        act()
    except CompactorError as error:
        print(error, file=sys.stderr)


ROLES = {role.__name__: role for role in (writer, reader, ddl, worker, cleaner, housekeeper)}


def play(role: str, environment: Mapping[str, str], folder: str, seed: str) -> None:
    """Plays one of ``ROLES`` until the process is killed; what ends it otherwise is in ``log-<role>``."""
    chance = random.Random(seed)
    with (Path(folder) / f"log-{role}").open("a") as log, redirect_stderr(log):
        while True:
            try:
                with open_site(configure(flags=dict(SETTINGS), environment=environment)) as site:
                    faulty = site if role in ("writer", "reader", "ddl") else with_storage(site, Faulty(chance))
                    ROLES[role](faulty, Path(folder), chance)
            except (DatabaseUnavailable, CommitUnknown) as error:  # its server was killed; a schedule starts it again
                print(error, file=log, flush=True)
            except BaseException:
                traceback.print_exc()
                log.flush()
                raise

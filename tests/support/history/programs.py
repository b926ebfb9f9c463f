"""The work of one process of a program on tables, or of a role beside it, until its time is over; every call is recorded.

A call is a whole transaction. ``t`` and ``u`` get the same batches, ``c`` has one counter, ``k`` at most one row of a key,
``o`` the rows of one call only.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa

from compactor.acid.names import CLAIM_PREFIX
from compactor.base.errors import CompactorError, Refused
from compactor.batches.assembly import list_claimable_ids
from compactor.batches.driver import run_entries
from compactor.cleaner.cleaner import clean
from compactor.compaction.queue_entry import Entity
from compactor.housekeeper.housekeeper import keep_house
from compactor.initiator.initiator import initiate
from compactor.metastore.catalog.embedded import NewTable
from compactor.metastore.catalog.values import Column
from compactor.requests.request import request_compaction
from compactor.rewrite.run.runner import InProcessRunner
from compactor.site.site import Site
from compactor.tables.store import Store, StoreTransaction, open_metastore
from tests.support.history.recorder import Recorder
from tests.support.passes import time_out_all

TABLES = ("t", "u", "c", "k", "o")
KEYS = 3
BATCH = 3  #: rows of a call in each table
_SCHEMA = pa.schema([("token", pa.string()), ("n", pa.int64())])


def prepare(config: str, location: str) -> None:
    """Creates the tables ``default.t`` and so on, below ``location``; ``c`` gets its counter."""
    with open_metastore(config_path=config) as store:
        catalog = store.site.metastore.embedded_catalog
        if "default" not in store.site.metastore.catalog.databases():
            catalog.create_database("default", location)
        columns = [Column(name="token", type="string"), Column(name="n", type="bigint")]
        for name in TABLES:
            place = f"{location}/{name}"
            store.site.storage.make_directories(
                store.site.storage.resolve(place), like=store.site.storage.resolve(location)
            )
            catalog.create_table(NewTable("default", name, place, columns, parameters={"transactional": "true"}))
        store.load_table("default.c").append(make_rows("c", 0))


def make_rows(token: str, *numbers: int) -> pa.Table:
    return pa.table([pa.array([token] * len(numbers)), pa.array(numbers, pa.int64())], schema=_SCHEMA)


class Program:
    """One process on an open metastore."""

    def __init__(self, store: Store, recorder: Recorder, seed: str) -> None:
        self._store = store
        self._recorder = recorder
        self._random = random.Random(seed)
        self._tokens: list[str] = []
        self._count = 0

    def run(self, stop: Callable[[], bool]) -> None:
        """Does one thing after another until ``stop`` says so."""
        things: list[tuple[Callable[[], object], int]] = [
            (self._append, 24),
            (self._remove, 8),
            (self._count_up, 18),
            (self._put, 12),
            (self._replace, 8),
            (self._read, 20),
            (self._role, 40),
        ]
        doings, weights = [thing for thing, _ in things], [weight for _, weight in things]
        while not stop():
            try:
                self._random.choices(doings, weights)[0]()
            except CompactorError:  # it is recorded, and the process goes on with something else
                continue

    def _append(self) -> None:
        token = self._token()

        def work(txn: StoreTransaction) -> int:
            for name in self._random.sample(("t", "u"), 2):
                txn.load_table(f"default.{name}").append(make_rows(token, *range(BATCH)))
                self._pause()
            return BATCH

        self._within("append", work, token=token)
        self._tokens.append(token)

    def _remove(self) -> None:
        if not self._tokens:
            return
        token = self._tokens.pop(self._random.randrange(len(self._tokens)))

        def work(txn: StoreTransaction) -> list[int]:
            found = []
            for name in ("t", "u"):
                found.append(txn.load_table(f"default.{name}").delete(f"token = '{token}'"))
                self._pause()
            return found

        self._within("remove", work, token=token)

    def _count_up(self) -> None:
        """Reads, and writes what it makes of that: the first to commit wins."""

        def work(txn: StoreTransaction) -> int:
            table = txn.load_table("default.c")
            (before,) = table.scan().to_arrow().column("n").to_pylist()
            self._pause()
            table.update({"n": str(before + 1)})
            return int(before) + 1

        self._within("count_up", work)

    def _put(self) -> None:
        key, number = f"key{self._random.randrange(KEYS)}", self._random.randrange(1000)

        def work(txn: StoreTransaction) -> list[int]:
            done = txn.load_table("default.k").upsert(make_rows(key, number), ["token"])
            self._pause()
            return [done.updated, done.inserted]

        self._within("put", work, key=key)

    def _replace(self) -> None:
        token = self._token()

        def work(txn: StoreTransaction) -> int:
            written = txn.load_table("default.o").overwrite(make_rows(token, *range(BATCH)))
            self._pause()
            return written

        self._within("replace", work, token=token)

    def _read(self) -> None:
        def work(txn: StoreTransaction) -> list[dict[str, Any]]:
            found = [seen(txn)]
            self._pause()
            return [*found, seen(txn)]

        self._within("read", work)

    def _within(self, name: str, work: Callable[[StoreTransaction], Any], **arguments: Any) -> None:
        def whole() -> Any:
            with self._store.transaction() as txn:
                return work(txn)

        self._recorder.call(name, whole, **arguments)

    def _role(self) -> None:
        """Compacts, cleans or keeps house."""
        site = self._store.site
        match self._random.randrange(5):
            case 0:
                table, kind = self._random.choice(TABLES), self._random.choice(("minor", "major"))
                self._recorder.call(
                    "request", lambda: len(request_compaction(site, table=f"default.{table}", type=kind))
                )
            case 1:
                self._recorder.call("work", lambda: work(site))
            case 2:
                self._recorder.call("clean", lambda: clean(site), answer=lambda _: None)
            case 3:
                self._recorder.call("initiate", lambda: initiate(site), answer=lambda _: None)
            case _:
                self._recorder.call("keep", lambda: keep_house(site), answer=lambda _: None)

    def _token(self) -> str:
        self._count += 1
        return f"{self._recorder.process}.{self._count}"

    def _pause(self) -> None:
        time.sleep(self._random.random() * 0.05)


def work(site: Site) -> list[str]:
    """One pass of a worker; returns the results."""
    return [outcome.result.name for outcome in run_entries(site, list_claimable_ids(site), InProcessRunner()).outcomes]


def seen(txn: StoreTransaction) -> dict[str, Any]:
    """Returns what a transaction sees: rows by token, and the counter."""
    found: dict[str, Any] = {}
    for name in TABLES:
        table = txn.load_table(f"default.{name}").scan().to_arrow()
        tokens = Counter(table.column("token").to_pylist())
        found[name] = table.column("n").to_pylist() if name == "c" else dict(tokens)
    return found


def look_at_the_end(config: str, recorder: Recorder) -> None:
    """Records what is there when all processes have ended, before and after the roles have tidied up; and what is hidden."""
    with open_metastore(config_path=config) as store:

        def read() -> list[dict[str, Any]]:
            with store.transaction() as txn:
                return [seen(txn)]

        recorder.call("read", read)
        site = store.site
        time_out_all(site)
        for _ in range(3):
            for name in TABLES:
                with suppress(Refused):  # one is there already
                    request_compaction(site, table=f"default.{name}", type="major")
            work(site)
            clean(site)
            keep_house(site)
        recorder.call("read", read)
        recorder.call("hidden", lambda: hidden(site))


def hidden(site: Site) -> list[str]:
    """Returns the names in the tables that no reader looks at."""
    places = [site.target(Entity(database="default", table=name)).location for name in TABLES]
    return sorted(
        f"{Path(place).name}/{name}"
        for place in places
        for name in site.storage.children(place)
        if name.startswith((".", "_")) and not name.startswith(CLAIM_PREFIX)
    )

"""One side is damaged at random, the metastore's rows or the table's directories: no role loses a row of it."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.orc as pa_orc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import update

from compactor.acid.names import parse_directory
from compactor.base.steps import Step
from compactor.batches.assembly import list_claimable_ids
from compactor.batches.driver import run_entries
from compactor.metastore.schema.tables import COMPACTION_QUEUE, TXNS
from compactor.requests.request import request_compaction
from compactor.rewrite.run.runner import InProcessRunner
from compactor.site.deployment import configure, open_site
from compactor.site.site import Site
from tests.support import roles
from tests.support.backups import without_memory
from tests.support.forked import die
from tests.support.passes import clean_all, every_role
from tests.support.sizes import sized
from tests.support.tables import delete, insert, make_table, rows_of, with_settings

Row = tuple[Any, ...]

#: Statements that change what the metastore says about one transaction, ``?``, or about everything.
_OF_ONE = (
    "UPDATE TXNS SET TXN_STATE = 'o', TXN_LAST_HEARTBEAT = 0 WHERE TXN_ID = ? AND TXN_TYPE IN (3, 6)",
    "UPDATE TXNS SET TXN_STATE = 'a' WHERE TXN_ID = ? AND TXN_TYPE IN (3, 6)",
    "UPDATE TXNS SET TXN_TYPE = 0 WHERE TXN_ID = ?",
    "UPDATE TXNS SET TXN_TYPE = 3 WHERE TXN_ID = ? AND TXN_STATE = 'c'",
    "DELETE FROM TXNS WHERE TXN_ID = ?",
    "UPDATE COMPACTION_QUEUE SET CQ_TXN_ID = ?",
    "UPDATE NEXT_WRITE_ID SET NWI_NEXT = ?",
    "DELETE FROM TXNS WHERE TXN_ID >= ?",
)
_OF_ALL = (
    "DELETE FROM COMPACTION_QUEUE",
    "UPDATE COMPACTION_QUEUE SET CQ_STATE = 'i', CQ_WORKER_ID = NULL, CQ_TXN_ID = NULL",
    "UPDATE COMPACTION_QUEUE SET CQ_STATE = 'w', CQ_WORKER_ID = 'compactor-lost', CQ_START = 0",
    "UPDATE COMPACTION_QUEUE SET CQ_STATE = 'r'",
    "DELETE FROM COMPLETED_TXN_COMPONENTS",
    "DELETE FROM COMPLETED_COMPACTIONS",
    "DELETE FROM TXN_TO_WRITE_ID",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Renumbered:
    """The ``which``-th output of a compaction gets the number ``txn``, or a copy of it does."""

    which: int
    txn: int
    is_copy: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Removed:
    """The ``which``-th base or delta is gone, by nobody's doing that we know of."""

    which: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """A statement ran in the metastore's database."""

    statement: str
    txn: int | None = None


Damage = Renumbered | Removed | Changed
_TXN = st.integers(1, 24)
DAMAGES = st.lists(
    st.one_of(
        st.builds(Changed, statement=st.sampled_from(_OF_ONE), txn=_TXN),
        st.builds(Changed, statement=st.sampled_from(_OF_ALL)),
        st.builds(Renumbered, which=st.integers(0, 3), txn=_TXN, is_copy=st.booleans()),
        st.builds(Removed, which=st.integers(0, 5)),
    ),
    min_size=1,
    max_size=3,
)


class Scene:
    """A warehouse with its metastore, put back before each example."""

    def __init__(self, folder: Path, play: Callable[[Site, Path, str], None]) -> None:
        self._kept = folder / "kept"
        self._folder = folder / "now"
        (self._folder / "warehouse").mkdir(parents=True)
        self.database = self._folder / "metastore.db"
        self._url = f"sqlite:///{self.database}"
        with closing(sqlite3.connect(self.database)):
            pass
        self._play = play

    def make(self, empty: Path) -> None:
        """Plays once what each example begins with."""
        shutil.copyfile(empty, self.database)
        with self.opened() as site:
            self._play(site, self._folder / "warehouse", self._url)
        shutil.copytree(self._folder, self._kept)

    def put_back(self) -> None:
        """Makes everything as it was."""
        shutil.rmtree(self._folder)
        shutil.copytree(self._kept, self._folder)

    def opened(self) -> Any:
        """Opens the site over it; its transactions settle at once."""
        environment = {"COMPACTOR_METASTORE_URL": self._url, "COMPACTOR_WAREHOUSE": str(self._folder / "warehouse")}
        return open_site(configure("default", environment=environment))

    @property
    def table(self) -> Path:
        return self._folder / "warehouse" / "t"


def settled(site: Site) -> Site:
    bare = without_memory(site)
    return with_settings(bare, hive_txn_opentxn_timeout="1ms", hive_compactor_delta_num_threshold="1")


def _with_rows(site: Site, warehouse: Path) -> None:
    table = make_table(site, warehouse)
    for start in range(0, 30, 10):
        insert(site, table, range(start, start + 10))
    delete(site, table, [3, 14])


def _compacted(site: Site, warehouse: Path, _url: str) -> None:
    _with_rows(settled(site), warehouse)
    request_compaction(site, table="default.t", type="major")
    run_entries(settled(site), list_claimable_ids(site), InProcessRunner())
    insert(site, site.metastore.catalog.table("default", "t"), range(50, 55))


def _cleaned(site: Site, warehouse: Path, url: str) -> None:
    _compacted(site, warehouse, url)
    clean_all(settled(site))
    insert(site, site.metastore.catalog.table("default", "t"), range(60, 65))
    request_compaction(site, table="default.t", type="minor")


def _lost(site: Site, warehouse: Path, url: str) -> None:
    _cleaned(site, warehouse, url)
    die(roles.worker, url, Step.NAMED)


SCENES = {"compacted": _compacted, "cleaned": _cleaned, "a lost worker": _lost}


@pytest.fixture(scope="module", params=SCENES)
def scene(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, empty_metastore: Path) -> Scene:
    made = Scene(tmp_path_factory.mktemp("scene"), SCENES[request.param])
    made.make(empty_metastore)
    return made


def directories(table: Path) -> Iterator[Path]:
    """Yields the bases and deltas, by name."""
    for path in sorted(table.iterdir()):
        if path.name.startswith(("base_", "delta_", "delete_delta_")) and parse_directory(path.name) is not None:
            yield path


def rows_in_files(table: Path) -> dict[Row, set[str]]:
    """Returns every inserted row in a file that has its name, with the directories that hold it."""
    found: dict[Row, set[str]] = {}
    for directory in directories(table):
        if directory.name.startswith("delete"):
            continue
        for file in directory.glob("bucket_*"):
            for row in pa_orc.ORCFile(file).read().to_pylist():
                key = (row["originalTransaction"], row["bucket"], row["rowId"], *row["row"].values())
                found.setdefault(key, set()).add(directory.name)
    return found


def suffer(table: Path, database: Path, damage: Damage) -> None:
    """Does the damage; where there is nothing that it could befall, nothing happens."""
    match damage:
        case Changed(statement=statement, txn=txn):
            with closing(sqlite3.connect(database)) as conn, conn:
                conn.execute(statement, () if txn is None else (txn,))
        case Renumbered(which=which, txn=txn, is_copy=is_copy):
            outputs = [path for path in directories(table) if "_v" in path.name]
            if which >= len(outputs):
                return
            target = table / f"{outputs[which].name.partition('_v')[0]}_v{txn:07d}"
            if not target.exists():
                (shutil.copytree if is_copy else shutil.move)(outputs[which], target)
        case Removed(which=which):
            found = list(directories(table))
            if which < len(found):
                shutil.rmtree(found[which])


@settings(max_examples=sized(short=5, whole=150))
@given(damages=DAMAGES)
def test_whatever_is_damaged_no_role_loses_more(scene: Scene, damages: list[Damage]) -> None:
    """PROTOCOL 11: what everybody could read, and the damage itself left there, is in a file with its name afterwards."""
    scene.put_back()
    with scene.opened() as opened:
        site = settled(opened)
        readable = set(rows_of(site, site.metastore.catalog.table("default", "t")))
        for damage in damages:
            suffer(scene.table, scene.database, damage)
        wanted = readable & rows_in_files(scene.table).keys()
        with site.metastore.database.write() as conn:  # nobody is alive
            conn.execute(update(TXNS).where(TXNS.c.TXN_STATE == "o").values(TXN_LAST_HEARTBEAT=0))
            conn.execute(update(COMPACTION_QUEUE).where(COMPACTION_QUEUE.c.CQ_STATE == "w").values(CQ_START=0))
        every_role(site)
        lost = wanted - rows_in_files(scene.table).keys()
    assert not lost, f"{damages}: {sorted(lost)[:3]} of {len(lost)} rows are gone"

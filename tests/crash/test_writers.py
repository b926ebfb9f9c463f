"""Programs that write rows, killed at every step, or paused until everybody has forgotten them (PROTOCOL 14.1), or until an
older copy of the database was put back (11.2)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from sqlalchemy import delete

from compactor.base.errors import Disagreement, LockLost, Refused
from compactor.base.ids import TxnId
from compactor.base.steps import WriteStep
from compactor.batches.assembly import list_claimable_ids
from compactor.batches.driver import run_entries
from compactor.metastore.catalog.values import Table
from compactor.metastore.schema.tables import MIN_HISTORY_LEVEL, TXN_COMPONENTS, TXN_TO_WRITE_ID, TXNS
from compactor.requests.request import request_compaction
from compactor.rewrite.run.runner import InProcessRunner
from compactor.site.site import Site
from compactor.tables.sql.run_statements import check_text, run
from compactor.tables.store import Store
from tests.support.backups import Backup
from tests.support.partitioned import make_partitioned
from tests.support.passes import clean_all, compact, time_out_all
from tests.support.patience import PATIENCE, until
from tests.support.tables import make_table, with_settings
from tests.support.watching import names_in

_PROGRAM = """
import pyarrow as pa
from compactor.tables import open_metastore
with open_metastore() as store, store.transaction() as txn:
    table, other = txn.load_table("default.t"), txn.load_table("default.u")
    table.append(pa.table({"a": [3, 4]}))
    other.append(pa.table({"a": [3, 4]}))
    table.append(pa.table({"a": [5]}))
    txn.load_table("default.p").append(pa.table({"a": [3, 4], "p": [1, 2]}))
"""
_CHANGES = """
import pyarrow as pa
from compactor.tables import open_metastore
with open_metastore() as store, store.transaction() as txn:
    table = txn.load_table("default.t")
    table.update({"a": "7"}, where="a = 1")
    with table.mutate(key=["a"]) as mutation:
        mutation.insert(pa.table({"a": [9]}))
        mutation.delete(pa.table({"a": [9, 2]}))
    txn.load_table("default.u").overwrite(pa.table({"a": [8]}))
    txn.load_table("default.p").upsert(pa.table({"a": [3], "p": [1]}), ["a"])
"""
_STREAM = """
import pyarrow as pa
from compactor.tables import open_metastore
from compactor.tables.transactions import batch
batch.AGE_S = 1e9
with open_metastore() as store, store.load_table("default.p").stream() as stream:
    for number in (3, 4):
        stream.write(pa.table({"a": [number], "p": [number]}))
        stream.commit()
"""
_CREATES = """
from compactor.tables.sql.run_statements import check_text, run
from compactor.tables import open_metastore
with open_metastore() as store:
    list(run(store.site, check_text("create table made as select a from t")))
"""
#: The rows of a table that has some, of an empty one, and of one whose partitions do not exist.
BEFORE, AFTER = ({1, 2}, set(), set()), ({1, 2, 3, 4, 5}, {3, 4}, {3, 4})
AFTER_CHANGES = ({7}, {8}, {3})
BEFORE_THE_LOCK = (WriteStep.WRITE_BEGUN, WriteStep.WRITE_ATTEMPTED, WriteStep.WRITE_STAGED, WriteStep.WRITE_DURABLE)


@pytest.fixture
def site(deployment: Site, warehouse: Path) -> Site:
    site = with_settings(deployment, hive_txn_opentxn_timeout="1ms", hive_compactor_abortedtxn_threshold="0")
    for name in ("t", "u"):
        make_table(site, warehouse, name)
    make_partitioned(site, warehouse, "p")
    Store(site).load_table("default.t").append(pa.table({"a": [1, 2]}))
    return site


def scan_tables(site: Site) -> tuple[set[int], ...]:
    found: list[set[int]] = []
    for name in ("t", "u", "p"):
        values = Store(site).load_table(f"default.{name}").scan().to_arrow().column("a").to_pylist()
        assert len(values) == len(set(values)), "a row is there twice"
        found.append(set(values))
    return tuple(found)


def tables(site: Site) -> list[Table]:
    return [site.metastore.catalog.table("default", name) for name in ("t", "u")]


def program(url: str, text: str = _PROGRAM, **how: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "COMPACTOR_METASTORE_URL": url, **how}
    return subprocess.Popen([sys.executable, "-c", text], env=environment, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("step", WriteStep, ids=lambda step: step.name)
@pytest.mark.parametrize(
    ("text", "after"),
    [
        pytest.param(_PROGRAM, AFTER, id="inserts"),
        pytest.param(_CHANGES, AFTER_CHANGES, id="changes", marks=pytest.mark.whole),
    ],
)
def test_a_killed_writer_wrote_everything_or_nothing(
    site: Site, metastore_url: str, text: str, after: tuple[set[int], ...], step: WriteStep
) -> None:
    with program(metastore_url, text, COMPACTOR_DIE_AT=step.name) as process:
        _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == -signal.SIGKILL, err
    wanted = after if step is WriteStep.WRITE_COMMITTED else BEFORE
    assert scan_tables(site) == wanted
    time_out_all(site)
    assert scan_tables(site) == wanted
    for table in tables(site):
        Store(site).load_table(str(table)).append(pa.table({"a": [9]}))
        compact(site, table=str(table))
    clean_all(site)
    assert scan_tables(site) == (wanted[0] | {9}, wanted[1] | {9}, wanted[2])
    names = [name for table in tables(site) for name in names_in(Path(table.location))]
    assert [name for name in names if name.startswith(".")] == []
    assert len(names) == 2, "what the dead one named is gone, too"
    partitioned = Store(site).load_table("default.p")
    assert len(partitioned.partitions) == len(wanted[2]), "a partition comes with its rows"
    if step is not WriteStep.WRITE_COMMITTED:  # then they are swept like those of any partition
        assert list(Path(tables(site)[0].location).parent.glob("p/**/.compactor*")) == []
    partitioned.append(pa.table({"a": [7, 8], "p": [1, 2]}))
    assert scan_tables(site)[2] == wanted[2] | {7, 8}


_NAMED = (WriteStep.WRITE_NAMED_FIRST, WriteStep.WRITE_NAMED)
_SHORT = (WriteStep.WRITE_STAGED, WriteStep.WRITE_PARTITIONS_ADDED, WriteStep.WRITE_NAMED, WriteStep.WRITE_COMMITTED)


@pytest.mark.parametrize(
    "step",
    [pytest.param(step, id=step.name, marks=[] if step in _SHORT else [pytest.mark.whole]) for step in WriteStep],
)
def test_a_killed_create_table_as_made_the_table_with_its_rows_or_none(
    site: Site, warehouse: Path, metastore_url: str, step: WriteStep
) -> None:
    """PROTOCOL 14.24. Names that nobody has committed lie in no table, and keep others from the directory."""
    with program(metastore_url, _CREATES, COMPACTOR_DIE_AT=step.name) as process:
        _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == -signal.SIGKILL, err
    is_made = step is WriteStep.WRITE_COMMITTED
    assert site.metastore.catalog.is_known("default", "made") is is_made
    assert scan_tables(site) == BEFORE
    time_out_all(site)
    again = check_text("create table if not exists made as select a from t")
    if step in _NAMED:
        with pytest.raises(Refused, match="holds delta_0000001_0000001_0000"):
            list(run(site, again))
        assert not site.metastore.catalog.is_known("default", "made")
        return
    [answer] = run(site, again)
    assert [row["created"] for row in answer.rows] == [not is_made]
    compact(site, table="default.made")
    clean_all(site)
    assert _values(site, "made") == [1, 2]
    assert [name for name in names_in(warehouse / "made") if name.startswith(".")] == []


@pytest.mark.parametrize("step", WriteStep, ids=lambda step: step.name)
def test_a_killed_stream_keeps_its_commits_and_nothing_of_what_was_opened_ahead(
    site: Site, metastore_url: str, step: WriteStep
) -> None:
    """It dies in its second commit, the first of a batch of two."""
    with program(metastore_url, _STREAM, COMPACTOR_DIE_AT=f"{step.name}:2") as process:
        _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == -signal.SIGKILL, err
    wanted = {3, 4} if step is WriteStep.WRITE_COMMITTED else {3}
    assert scan_tables(site)[2] == wanted
    assert site.metastore.transactions.open_transactions() != []
    time_out_all(site)
    assert scan_tables(site)[2] == wanted
    partitioned = Store(site).load_table("default.p")
    assert len(partitioned.partitions) == len(wanted)
    with partitioned.stream() as stream:
        for number in (5, 6):
            stream.write(pa.table({"a": [number], "p": [3]}))
            stream.commit()
    request_compaction(site, table="default.p", partition="p=3", type="major")
    run_entries(site, list_claimable_ids(site), InProcessRunner())
    clean_all(site)
    assert scan_tables(site)[2] == wanted | {5, 6}
    place = Path(tables(site)[0].location).parent / "p" / "p=3"
    assert len(names_in(place)) == 1, "one base, and nothing staged"


@pytest.mark.parametrize("step", [WriteStep.WRITE_BEGUN, WriteStep.WRITE_DURABLE], ids=lambda step: step.name)
def test_a_stream_that_was_paused_until_it_was_forgotten_names_nothing(
    site: Site, metastore_url: str, step: WriteStep
) -> None:
    with program(metastore_url, _STREAM, COMPACTOR_STOP_AT=f"{step.name}:2") as process:
        try:
            until(f"the program is suspended at {step.name}", lambda: _state(process) == "T")
            time_out_all(site)
            _forget(site)
            process.send_signal(signal.SIGCONT)
            _, err = process.communicate(timeout=PATIENCE)
        finally:
            process.kill()
    assert process.returncode == 1, err
    assert "the stream has committed 1 rows in 1 commits" in err
    assert scan_tables(site)[2] == {3}


@pytest.mark.parametrize("step", BEFORE_THE_LOCK, ids=lambda step: step.name)
def test_a_writer_that_was_paused_until_it_was_forgotten_names_nothing(
    site: Site, metastore_url: str, step: WriteStep
) -> None:
    """PROTOCOL 14.1: with a name, its rows would be everybody's, since a forgotten write ID counts as committed."""
    with program(metastore_url, COMPACTOR_STOP_AT=step.name) as process:
        try:
            until(f"the program is suspended at {step.name}", lambda: _state(process) == "T")
            time_out_all(site)
            _forget(site)
            process.send_signal(signal.SIGCONT)
            _, err = process.communicate(timeout=PATIENCE)
        finally:
            process.kill()
    assert process.returncode == 1, err
    assert "transaction" in err
    assert scan_tables(site) == BEFORE
    names = [name for table in tables(site) for name in names_in(Path(table.location))]
    assert names == ["delta_0000001_0000001_0000"]


@pytest.mark.parametrize("other", ["t", pytest.param("u", marks=pytest.mark.whole), "w"])
def test_a_writer_whose_number_was_given_out_again_names_and_commits_nothing(
    site: Site, warehouse: Path, metastore_url: str, tmp_path: Path, other: str
) -> None:
    """PROTOCOL 11.2.11: an older copy was put back while it was paused, and another program has its transaction's number."""
    make_table(site, warehouse, "w")
    backup = Backup(tmp_path / "metastore.db")
    backup.take()
    with program(metastore_url, COMPACTOR_STOP_AT=WriteStep.WRITE_DURABLE.name) as process:
        try:
            until("the program is suspended", lambda: _state(process) == "T")
            backup.restore()
            with Store(site).transaction() as txn:
                txn.load_table(f"default.{other}").append(pa.table({"a": [77]}))
                process.send_signal(signal.SIGCONT)
                _, err = process.communicate(timeout=PATIENCE)
                assert site.metastore.transactions.state(TxnId(txn.id)) == "o"
        finally:
            process.kill()
    assert (process.returncode, "used the number again" in err) == (1, True), err
    found = {name: _values(site, name) for name in "tuw"}
    assert found == {"t": [1, 2], "u": [], "w": []} | {other: [*([1, 2] if other == "t" else []), 77]}
    names = [name for table in tables(site) for name in names_in(Path(table.location))]
    assert [name for name in names if name.startswith(".")] == []


def test_a_write_id_that_was_given_out_again_is_not_written_to(site: Site, tmp_path: Path) -> None:
    """PROTOCOL 11.2.11: the copy is from after the transaction began, and from before it wrote."""
    backup = Backup(tmp_path / "metastore.db")

    def write() -> None:
        with Store(site).transaction() as txn:
            backup.take()
            txn.load_table("default.t").append(pa.table({"a": [3]}))
            backup.restore()
            Store(site).load_table("default.t").append(pa.table({"a": [77]}))

    with pytest.raises((Disagreement, LockLost)):  # its locks are not in the copy either
        write()
    assert _values(site, "t") == [1, 2, 77]


def _values(site: Site, name: str) -> list[int]:
    found = Store(site).load_table(f"default.{name}").scan().to_arrow().column("a").to_pylist()
    return sorted(found)


def _forget(site: Site) -> None:
    """Forgets the aborted transactions, as Hive's housekeeping does that knows nothing of staging directories."""
    aborted = list(site.metastore.transactions.aborted())
    assert aborted
    with site.metastore.database.write() as conn:
        columns: list[Any] = [TXN_COMPONENTS.c.TC_TXNID, TXN_TO_WRITE_ID.c.T2W_TXNID, MIN_HISTORY_LEVEL.c.MHL_TXNID]
        for column in (*columns, TXNS.c.TXN_ID):
            conn.execute(delete(column.table).where(column.in_(aborted)))


def _state(process: subprocess.Popen[str]) -> str:
    assert process.poll() is None, process.communicate()
    return Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0]

"""Mode observe with a user that may only read: it explains every table of this Hive and changes nothing."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from compactor.cli.program import program
from tests.support import servers
from tests.support.beside import TRANSACTIONAL, Beside
from tests.support.live_hive import Place

_TABLES = (
    f"seen_plain (a int, b string) {TRANSACTIONAL}",
    f"seen_parted (a int, b string) partitioned by (p string, n int) {TRANSACTIONAL}",
    "seen_inserts (a int) stored as orc tblproperties('transactional'='true', 'transactional_properties'='insert_only')",
    "seen_text (a int) stored as textfile",
)


@pytest.fixture
def reader(beside: Beside, place: tuple[Place, servers.Server]) -> str:
    """The URL of a user with SELECT and nothing else."""
    where, server = place
    server.sql(
        f"CREATE USER watcher PASSWORD '{where.password}'; GRANT SELECT ON ALL TABLES IN SCHEMA public TO watcher;",
        "hive4",
    )
    return beside.url.replace("hive@", f"watcher:{where.password}@")


def test_observe_explains_everything_and_changes_nothing(
    beside: Beside, reader: str, place: tuple[Place, servers.Server], capsys: pytest.CaptureFixture[str]
) -> None:
    for definition in _TABLES:
        beside.hive.sql(f"create table {definition}")
    for _ in range(3):
        beside.hive.sql("insert into seen_plain values (1, 'x')")
    beside.hive.sql("insert into seen_parted values (1, 'x', 'a/b', 7)")
    beside.hive.sql("insert into seen_inserts values (1)")
    beside.hive_request("seen_plain", "major")
    [txn] = beside.hive.do("open")
    before = beside.contents(), _files(place[0].folder / "warehouse")
    tables = [name for (name,) in beside.sql('SELECT "TBL_NAME" FROM "TBLS"')]
    assert {definition.split()[0] for definition in _TABLES} <= set(tables)
    for name in tables:
        explained = json.loads(_watch(reader, "explain", f"default.{name}"))
        assert (explained["table"], explained["mode"]) == (f"default.{name}", "observe")
    [asked] = json.loads(_watch(reader, "show", "compactions", "default.seen_plain"))
    assert asked["state"] == "initiated"
    listed = {row["table"] for row in json.loads(_watch(reader, "show", "tables"))}
    assert {"default.seen_plain", "default.seen_parted"} <= listed
    assert "default.seen_text" not in listed
    for words in (["show", "blockers"], ["show", "locks"], ["show", "history"], ["doctor"]):
        json.loads(_watch(reader, *words))
    assert txn in [str(row["txnid"]) for row in json.loads(_watch(reader, "show", "transactions"))]
    for role in ("initiator", "cleaner", "housekeeper"):
        _watch(reader, "run", role, "--once")
    assert (beside.contents(), _files(place[0].folder / "warehouse")) == before
    beside.hive.do("commit", txn=int(txn))
    beside.hive_work()
    beside.hive_clean()


def _watch(reader: str, *words: str) -> str:
    done = CliRunner().invoke(program, ["--json", *words], env={"COMPACTOR_METASTORE_URL": reader})
    assert done.exit_code == 0, (words, done.output, done.exception)
    return done.stdout


def _files(folder: Path) -> dict[str, str]:
    """Every file with its content's digest."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }

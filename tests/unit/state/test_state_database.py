from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import inspect

from compactor.base.errors import DatabaseUnavailable
from compactor.compaction.queue_entry import Entity
from compactor.database.engine import open_database
from compactor.metastore.schema import create
from compactor.state import state_database
from compactor.state.state_database import OwnState
from compactor.state.state_tables import VERSION_TABLE, metadata

T = Entity(database="default", table="t")
P = Entity(database="default", table="p", partition="d=1")


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'state.db'}"


@pytest.fixture
def state(url: str) -> Iterator[OwnState]:
    opened = state_database.init(url)
    yield opened
    opened.close()


# --- schema -------------------------------------------------------------------------------------------------------


def test_numbers_are_handed_out_once(state: OwnState) -> None:
    with state.database.read() as conn:
        sql = "SELECT name FROM sqlite_master WHERE sql LIKE '%AUTOINCREMENT%' ORDER BY name"
        assert conn.exec_driver_sql(sql).scalars().all() == [
            "COMPACTOR_BATCHES",
            "COMPACTOR_DECISIONS",
            "COMPACTOR_RESIDENTS",
            "COMPACTOR_RUNS",
        ]


def test_our_tables_are_beside_the_metastores(url: str) -> None:
    database = open_database(url)
    create.create(database)
    state_database.upgrade(database)
    state_database.upgrade(database)
    with database.read() as conn:
        ours = {name for name in inspect(conn).get_table_names() if name.startswith("COMPACTOR_")}
    assert ours == set(metadata.tables) | {VERSION_TABLE}
    assert create.version(database) == "4.0.0"


def test_a_step_that_fails_leaves_nothing(url: str) -> None:
    database = open_database(url)
    with database.write() as conn:
        conn.exec_driver_sql("CREATE TABLE COMPACTOR_RUNS (a)")
    with pytest.raises(DatabaseUnavailable, match="COMPACTOR_RUNS"):
        state_database.upgrade(database)
    with database.read() as conn:
        assert inspect(conn).get_table_names() == ["COMPACTOR_RUNS"]


def test_opening_logs_nothing(url: str, caplog: pytest.LogCaptureFixture) -> None:
    """A waiting task opens the state every few seconds, and its log is for people."""
    state_database.init(url).close()
    caplog.clear()
    with caplog.at_level("DEBUG"):
        state_database.open_state(url).close()
    assert [record.name for record in caplog.records if record.levelname != "DEBUG"] == []


def test_opening_what_is_not_there_says_what_to_do(url: str) -> None:
    with pytest.raises(DatabaseUnavailable, match="init"):
        state_database.open_state(url)
    create.create(open_database(url))
    with pytest.raises(DatabaseUnavailable, match="holds no state; run `compactor state init`"):
        state_database.open_state(url)


def test_state_of_another_release_is_refused(url: str, state: OwnState) -> None:
    with state.database.write() as conn:
        conn.exec_driver_sql(f"UPDATE {VERSION_TABLE} SET version_num = '9999'")
    for use in (state_database.open_state, state_database.init):
        with pytest.raises(
            DatabaseUnavailable, match=r"version 9999.*does not know it; install the release that wrote it"
        ):
            use(url)


def test_the_steps_are_found_from_any_folder(tmp_path: Path, url: str) -> None:
    script = f"from compactor.state import state_database as own; print(own.version(own.init({url!r}).database))"
    root = str(Path(__file__).parents[3])
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env={"PYTHONPATH": root},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.strip() == state_database.newest_version(), done.stderr

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from alembic.script import ScriptDirectory
from sqlalchemy import inspect

from compactor.base.errors import DatabaseUnavailable
from compactor.compaction.queue_entry import Entity
from compactor.database.engine import open_database
from compactor.metastore.schema import create, detect
from compactor.state import state_upgrade
from compactor.state.state_database import OwnState
from compactor.state.state_tables import STATE_VERSION, STATE_VERSIONS, VERSION_TABLE, metadata

T = Entity(database="default", table="t")
P = Entity(database="default", table="p", partition="d=1")


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'state.db'}"


@pytest.fixture
def state(url: str) -> Iterator[OwnState]:
    opened = state_upgrade.init(url)
    yield opened
    opened.close()


def test_numbers_are_handed_out_once(state: OwnState) -> None:
    with state.database.read() as conn:
        sql = "SELECT name FROM sqlite_master WHERE sql LIKE '%AUTOINCREMENT%' ORDER BY name"
        assert conn.exec_driver_sql(sql).scalars().all() == [
            "COMPACTOR_BATCHES",
            "COMPACTOR_DECISIONS",
            "COMPACTOR_REMOVALS",
            "COMPACTOR_RESIDENTS",
            "COMPACTOR_RUNS",
        ]


def test_our_tables_are_beside_the_metastores(url: str) -> None:
    database = open_database(url)
    create.create(database)
    state_upgrade.upgrade(database)
    state_upgrade.upgrade(database)
    with database.read() as conn:
        ours = {name for name in inspect(conn).get_table_names() if name.startswith("COMPACTOR_")}
    assert ours == set(metadata.tables) | {VERSION_TABLE}
    assert detect.version(database) == "4.0.0"


def test_a_step_that_fails_leaves_nothing(url: str) -> None:
    database = open_database(url)
    with database.write() as conn:
        conn.exec_driver_sql("CREATE TABLE COMPACTOR_RUNS (a)")
    with pytest.raises(DatabaseUnavailable, match="COMPACTOR_RUNS"):
        state_upgrade.upgrade(database)
    with database.read() as conn:
        assert inspect(conn).get_table_names() == ["COMPACTOR_RUNS"]


def test_the_steps_are_found_from_any_folder(tmp_path: Path, url: str) -> None:
    script = (
        "from compactor.state import state_database, state_upgrade; "
        f"print(state_database.version(state_upgrade.init({url!r}).database))"
    )
    root = str(Path(__file__).parents[3])
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env={"PYTHONPATH": root},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.strip() == STATE_VERSION, done.stderr


def test_the_versions_are_those_of_the_steps() -> None:
    steps = ScriptDirectory.from_config(state_upgrade._config()).walk_revisions()
    assert [step.revision for step in steps] == list(reversed(STATE_VERSIONS))

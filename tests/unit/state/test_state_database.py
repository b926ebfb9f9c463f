from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from compactor.base.errors import DatabaseUnavailable
from compactor.compaction.queue_entry import Entity
from compactor.database.engine import open_database
from compactor.metastore.schema import create
from compactor.state import state_database, state_upgrade
from compactor.state.state_database import OwnState
from compactor.state.state_tables import VERSION_TABLE

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


def test_opening_logs_nothing(url: str, caplog: pytest.LogCaptureFixture) -> None:
    """A waiting task opens the state every few seconds, and its log is for people."""
    state_upgrade.init(url).close()
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
    for use in (state_database.open_state, state_upgrade.init):
        with pytest.raises(
            DatabaseUnavailable, match=r"version 9999.*does not know it; install the release that wrote it"
        ):
            use(url)

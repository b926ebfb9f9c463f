from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from compactor.metastore.metastore import Metastore
from compactor.state import state_database
from compactor.state.state_tables import STATE_VERSION
from tests.support.backups import Backup

Compactor = Callable[..., Result]


def test_init_creates_a_metastore_with_our_state(compactor: Compactor, metastore_url: str, tmp_path: Path) -> None:
    done = compactor("metastore", "init")
    assert done.stdout == f"metastore default: {metastore_url}, schema 4.0.0, with our state\n"
    assert (tmp_path / "metastore.db").is_file()
    state_database.open_state(metastore_url).close()


def test_init_of_an_existing_metastore_changes_nothing(compactor: Compactor, metastore: Metastore) -> None:
    [txn] = metastore.transactions.open("u", "h")
    output = json.loads(compactor("metastore", "init", "--json").stdout)
    assert (output["metastore"], output["schema_version"], output["state"]) == ("default", "4.0.0", True)
    assert metastore.transactions.state(txn) == "o"


def test_init_refuses_a_hive_metastore(compactor: Compactor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COMPACTOR_METASTORE_URL", "postgresql://hive:hunter2@nowhere.invalid/metastore")
    done = compactor("metastore", "init")
    assert done.exit_code == 1
    assert "schematool" in done.stderr
    assert "hunter2" not in done.output


def test_info_counts_what_is_there(compactor: Compactor, metastore: Metastore, metastore_url: str) -> None:
    metastore.embedded_catalog.create_database("default", "/w")
    [txn] = metastore.transactions.open("u", "h")
    output = json.loads(compactor("metastore", "info", "--json").stdout)
    assert (output["url"], output["state_url"], output["mode"]) == (metastore_url, metastore_url, "clean")
    assert (output["databases"], output["tables"], output["open_transactions"]) == (1, 0, 1)
    assert output["newest_transaction"] == txn
    assert "queue: 0" in compactor("metastore", "info").stdout.splitlines()


def commit(metastore: Metastore) -> None:
    (txn,) = metastore.transactions.open("ann", "h")
    metastore.transactions.commit(txn)


@pytest.fixture
def restored(compactor: Compactor, metastore: Metastore, tmp_path: Path) -> Backup:
    """A database that is put back; returns a copy of what it was before."""
    backup, right = Backup(tmp_path / "metastore.db"), Backup(tmp_path / "metastore.db")
    for number in range(3):
        commit(metastore)
        assert compactor("run", "cleaner", "--once").exit_code == 0
        if number == 0:
            backup.take()
    right.take()
    backup.restore()
    return right


@pytest.mark.parametrize("role", ["initiator", "worker", "cleaner", "housekeeper"])
@pytest.mark.usefixtures("restored")
def test_every_role_ends_with_the_message_and_exit_code_1(compactor: Compactor, tmp_path: Path, role: str) -> None:
    """PROTOCOL 11.2: the thing, what was found, what was wanted, what to do."""
    done = compactor("run", role, "--once", *(["--in-process"] if role == "worker" else []))
    assert done.exit_code == 1
    (line,) = done.stderr.strip().splitlines()
    assert line.startswith(
        f"compactor: metastore default (sqlite:///{tmp_path}/metastore.db): the database is older than"
    )
    for part in (
        "by 2 transactions",
        "newest transaction: 1 in the database, 3 remembered",
        "Wanted is",
        "metastore agree",
    ):
        assert part in line


@pytest.mark.usefixtures("restored")
def test_a_request_is_refused_and_what_shows_goes_on(compactor: Compactor) -> None:
    """PROTOCOL 11.2."""
    assert compactor("abort", "transaction", "1").exit_code == 1
    assert compactor("show", "compactions").exit_code == 0
    found = json.loads(compactor("doctor", "--json").stdout)["findings"]
    (finding,) = (one for one in found if one["subject"] == "restored metastore")
    assert finding["level"] == "fail"
    assert "by 2 transactions" in finding["found"]
    assert "metastore agree" in finding["fix"]


@pytest.mark.usefixtures("restored")
def test_agree_shows_both_sides_and_with_yes_accepts_the_database(compactor: Compactor) -> None:
    """PROTOCOL 11.2."""
    shown = compactor("metastore", "agree")
    assert shown.exit_code == 0
    assert "contradiction: newest transaction: 1 in the database, 3 remembered" in shown.stdout
    assert "nothing was changed" in shown.stdout
    assert compactor("run", "cleaner", "--once").exit_code == 1
    done = json.loads(compactor("metastore", "agree", "--yes", "--json").stdout)
    kept = json.loads(Path(done["agreed"]).read_text())
    assert (kept["remembered"][0]["newest_transaction"], kept["database"]["newest_transaction"]) == (3, 1)
    assert compactor("run", "cleaner", "--once").exit_code == 0
    assert "both agree; nothing was changed" in compactor("metastore", "agree").stdout
    assert "both agree; nothing was changed" in compactor("metastore", "agree", "--yes").stdout


def test_with_the_right_database_back_everything_goes_on(compactor: Compactor, restored: Backup) -> None:
    """PROTOCOL 11.2."""
    restored.restore()
    assert compactor("run", "cleaner", "--once").exit_code == 0


def test_agree_without_a_file_says_so(compactor: Compactor, metastore: Metastore, tmp_path: Path) -> None:
    shown = compactor("metastore", "agree").stdout
    assert f"remembered: nothing in {tmp_path}/metastore.db.memory/default" in shown
    assert f"memory: {tmp_path}/metastore.db.memory/default" in compactor("metastore", "info").stdout.splitlines()


def test_mode_observe_has_separate_state_or_none(compactor: Compactor, metastore: Metastore, tmp_path: Path) -> None:
    refused = compactor("--set", "compactor.mode=observe", "state", "init")
    assert (refused.exit_code, "set state_url" in refused.stderr) == (2, True)
    done = compactor("state", "upgrade", "--json")
    assert json.loads(done.stdout)["version"] == STATE_VERSION

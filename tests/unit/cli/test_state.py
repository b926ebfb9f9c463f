from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from compactor.metastore.store import Metastore
from compactor.state import store

Compactor = Callable[..., Result]


def test_init_creates_a_metastore_with_our_state(compactor: Compactor, metastore_url: str, tmp_path: Path) -> None:
    done = compactor("metastore", "init")
    assert done.stdout == f"metastore default: {metastore_url}, schema 4.0.0, with our state\n"
    assert (tmp_path / "metastore.db").is_file()
    store.open_state(metastore_url).close()


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


def test_mode_observe_has_separate_state_or_none(compactor: Compactor, metastore: Metastore, tmp_path: Path) -> None:
    refused = compactor("--set", "compactor.mode=observe", "state", "init")
    assert (refused.exit_code, "set state_url" in refused.stderr) == (2, True)
    done = compactor("state", "upgrade", "--json")
    assert json.loads(done.stdout)["version"] == store.newest_version()

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from compactor.metastore.metastore import Metastore

Compactor = Callable[..., Result]


@pytest.fixture(autouse=True)
def _table(metastore: Metastore, warehouse: Path, compactor: Compactor) -> None:
    metastore.embedded_catalog.create_database("default", str(warehouse))
    text = "create table t (i int, at timestamp); insert into t values (1, '2026-11-01 00:00:00.5'), (2, null); "
    assert compactor("sql", text + "update t set at = null where i = 1; insert into t values (3, null)").exit_code == 0


def lines(done: Result) -> list[dict[str, Any]]:
    assert done.exit_code == 0, done.output
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_changes_are_a_table_or_lines_of_json(compactor: Compactor) -> None:
    rows = lines(compactor("changes", "default.t", "--since", "1", "--key", "i", "--json"))
    shown = [(row["_commit_version"], row["_change_type"], row["i"], row["at"]) for row in rows]
    assert sorted(shown) == [
        (2, "update_postimage", 1, None),
        (2, "update_preimage", 1, "2026-11-01 00:00:00.5"),
        (3, "insert", 3, None),
    ]
    assert {row["_commit_timestamp"][-1] for row in rows} == {"Z"}
    assert rows[0]["row__id"].keys() == {"writeid", "bucketid", "rowid"}
    table = compactor("changes", "default.t", "--since", "2").stdout.splitlines()
    assert table[0].split() == ["i", "at", "_change_type", "_commit_version", "_commit_timestamp", "row__id"]
    assert len(table) == 2
    assert compactor("changes", "default.t", "--since", "3").stdout == "nothing has changed\n"


def test_a_range_ends_where_it_is_told(compactor: Compactor) -> None:
    rows = lines(compactor("changes", "default.t", "--since", "0", "--until", "2", "--net", "--json"))
    assert [(row["_commit_version"], row["i"]) for row in rows] == [(1, 2), (2, 1)]


def test_a_version_that_does_not_exist_is_refused(compactor: Compactor) -> None:
    done = compactor("changes", "default.t", "--since", "9")
    assert (done.exit_code, done.stdout) == (1, "")
    assert "default.t: version 9 is not available: expected a version from 0 to 3, the current one" in done.stderr

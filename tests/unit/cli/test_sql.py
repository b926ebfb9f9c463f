from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from compactor.cli.program import program
from compactor.metastore.metastore import Metastore

Compactor = Callable[..., Result]
CREATE = "create table t (a int, b string); insert into t values (1, null), (2, null)"


@pytest.fixture(autouse=True)
def _database(metastore: Metastore, warehouse: Path) -> None:
    metastore.embedded_catalog.create_database("default", str(warehouse))


def test_rows_are_a_table_or_lines_of_json(compactor: Compactor) -> None:
    done = compactor("sql", CREATE)
    assert (done.exit_code, done.stdout.splitlines()[1]) == (0, "default.t: 2 rows written")
    assert compactor("sql", "select * from t").stdout.splitlines() == ["a  b", "1  -", "2  -"]
    lines = compactor("sql", "select b, a from t; show tables", "--json").stdout.splitlines()
    assert [json.loads(line) for line in lines] == [{"b": None, "a": 1}, {"b": None, "a": 2}, {"tab_name": "t"}]
    assert compactor("sql", "select * from t where a > 9").stdout == "there are no such rows\n"


@pytest.mark.parametrize(
    ("verb", "text"),
    [
        (("show", "compactions"), "show compactions"),
        (("show", "transactions"), "show transactions"),
        (("show", "locks"), "show locks"),
        (("explain-locks", "delete from t"), "explain locks delete from t"),
    ],
)
def test_utilities_print_what_the_verbs_print(
    compactor: Compactor, metastore: Metastore, verb: list[str], text: str
) -> None:
    compactor("sql", f"{CREATE}; alter table t compact 'major'")
    metastore.transactions.open("ada", "h")
    assert compactor("sql", text).stdout == compactor(*verb).stdout != ""


def test_statements_come_from_a_file_or_standard_input(compactor: Compactor, tmp_path: Path) -> None:
    compactor("sql", CREATE)
    (tmp_path / "x.sql").write_text("-- how many\nselect count(*)\nfrom t;\n")
    assert compactor("sql", "--file", "x.sql").stdout == "count(*)\n2\n"
    assert CliRunner().invoke(program, ["sql", "--json"], input="select count(*) from t").stdout == '{"count(*)": 2}\n'
    assert compactor("sql", "show tables", "--file", "x.sql").exit_code == 2
    assert compactor("sql", "--file", "nowhere.sql").exit_code == 2


def test_the_mark_of_utf_8_before_a_text_is_none_of_it(compactor: Compactor, tmp_path: Path) -> None:
    text = b"\xef\xbb\xbfshow databases"
    (tmp_path / "x.sql").write_bytes(text)
    assert compactor("sql", "--file", "x.sql").stdout == "database_name\ndefault\n"
    assert CliRunner().invoke(program, ["sql"], input=text).stdout == "database_name\ndefault\n"


def test_what_is_refused_has_its_place_and_nothing_is_done(compactor: Compactor) -> None:
    done = compactor("sql", f"{CREATE};\n grant x")
    assert (done.exit_code, "at line 2, character 2" in done.stderr, done.stdout) == (1, True, "")
    assert compactor("sql", "show tables").stdout == "there is no such table\n"


def test_a_text_that_only_shows_may_be_asked_of_a_site_that_observes(
    compactor: Compactor, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert compactor("--set", "compactor.mode=observe", "sql", "show databases").stdout == "database_name\ndefault\n"
    assert "observe" in compactor("--set", "compactor.mode=observe", "sql", "create database x").stderr

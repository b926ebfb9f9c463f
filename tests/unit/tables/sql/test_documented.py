"""docs/sql.md: its list is the code's, and its examples run."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from compactor.cli.program import program
from compactor.metastore.metastore import Metastore
from compactor.statements.statement_list import FORMS, Form

PAGE = Path(__file__).parents[4] / "docs" / "sql.md"
EXAMPLES = re.findall(r"^```sh\n(.*?)^```$", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE)


def row(form: Form) -> str:
    """The row of a form in the page's table."""
    how = form.how or (f"refused: {form.refused}" if form.refused else "in a session of Spark")
    return "| `" + form.syntax.replace("|", r"\|") + "` | " + how.replace("|", r"\|") + " |"


def test_the_list_of_the_page_is_the_closed_list() -> None:
    table = PAGE.read_text("utf-8").partition("| statement | how |\n|---|---|\n")[2].partition("\n\n")[0]
    assert table.split("\n") == [row(form) for form in FORMS]


def test_the_examples_run(
    metastore: Metastore, metastore_url: str, warehouse: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COMPACTOR_METASTORE_URL", metastore_url)
    monkeypatch.chdir(tmp_path)
    metastore.embedded_catalog.create_database("default", str(warehouse))
    said = []
    for command in shlex.split(EXAMPLES[0], comments=True):
        if command == "compactor":
            said.append([command])
        else:
            said[-1].append(command)
    outputs = [CliRunner().invoke(program, arguments) for _, *arguments in said]
    assert [done.output for done in outputs if done.exit_code] == []
    assert outputs[0].stdout == f"database sales is created at {warehouse}/sales.db\n"
    assert outputs[3].stdout == '{"id": 5, "amount": "12.00"}\n'
    assert outputs[4].stdout.splitlines()[1:3] == ["sales.orders: 1 row updated", "sales.orders: 1 row deleted"]
    assert "nightly" in outputs[6].stdout
    assert len(outputs) == 8

"""The documents' words about the command line for programs and shells."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from compactor.cli.program import program
from compactor.site.site import Site
from tests.support.tables import insert, make_table

DOCS = Path(__file__).parents[3] / "docs"


def completed(*words: str) -> set[str]:
    """Returns what bash offers for the last of ``words``, with the line of docs/installing.md in its start-up file."""
    [line] = re.findall(r"^(eval .*bash_source.*?) +#", (DOCS / "installing.md").read_text("utf-8"), re.MULTILINE)
    script = f"""
        {line}
        COMP_WORDS=({" ".join(repr(word) for word in words)}); COMP_CWORD={len(words) - 1}
        _compactor_completion compactor && printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_bash_completes_commands_options_and_values() -> None:
    assert {"show"} == completed("compactor", "sho")
    assert {"overview", "override"} == completed("compactor", "over")
    assert {"tables", "transactions"} == completed("compactor", "show", "t")
    assert {"minor", "major"} == completed("compactor", "compact", "--type", "m")
    assert {"--partition", "--pool"} <= completed("compactor", "compact", "--p")


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_are_told_how(shell: str) -> None:
    line = f"_COMPACTOR_COMPLETE={shell}_source compactor"
    assert line in (DOCS / "installing.md").read_text("utf-8")
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=True)
    assert f"_COMPACTOR_COMPLETE={shell}_complete" in done.stdout


def test_a_program_asks_as_the_document_says(
    deployment: Site, warehouse: Path, metastore_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in os.environ if name.startswith("COMPACTOR_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("COMPACTOR_METASTORE_URL", metastore_url)
    monkeypatch.chdir(tmp_path)
    insert(deployment, make_table(deployment, warehouse, "orders", database="shop"), [1])
    [code] = re.findall(r"```python\n(.*?)```", (DOCS / "python-api.md").read_text("utf-8"), re.DOTALL)
    found: dict[str, object] = {}
    exec(compile(code, "python-api.md", "exec"), found)
    assert found["code"] == 0
    assert found["asked"]
    assert "shop.orders" in str(found["waiting"]) or "orders" in str(found["waiting"])


def first_block(page: str, language: str, heading: str = "") -> str:
    """Returns the first example of a page in ``language``, below ``heading``."""
    text = (
        (DOCS.parent / page).read_text("utf-8").partition(heading)[2] if heading else (DOCS.parent / page).read_text()
    )
    match = re.search(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert match is not None
    return match[1]


def commands(block: str) -> str:
    """Returns the lines of a console that a person types."""
    return "".join(f"{line[2:]}\n" for line in block.splitlines() if line.startswith("$ "))


@pytest.mark.whole
def test_the_first_examples_work_one_after_the_other_as_printed(tmp_path: Path) -> None:
    """On a machine without a metastore: its folder, the embedded metastore, tables by SQL, and a program that reads them."""
    create = commands(first_block("docs/installing.md", "console", "## The embedded metastore"))
    look = commands(first_block("README.md", "console", "## Look at a metastore that you have"))
    script = "\n".join(
        (
            "set -e",
            create,
            first_block("docs/sql.md", "sh"),
            f"python - <<'END'\n{first_block('docs/tables.md', 'python')}print(rows.num_rows)\nEND",
            look.replace("default.f3_abort", "sales.orders"),
            commands(first_block("docs/runbook.md", "console"))
            .replace("DB.TABLE", "sales.orders")
            .partition("compactor dump")[0],
        )
    )
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COMPACTOR_")}
    ended = subprocess.run(
        ["bash", "-c", script.replace("/var/lib/compactor", str(tmp_path / "lib"))],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "sales.orders" in ended.stdout
    assert (tmp_path / "lib" / "warehouse" / "sales.db" / "orders" / "day=2026-11-01").is_dir()


def test_an_embedded_metastore_is_complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folders of both databases are made, ``default`` has a location, and a second run changes nothing."""
    for name in [name for name in os.environ if name.startswith("COMPACTOR_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("COMPACTOR_METASTORE_URL", f"sqlite:///{tmp_path}/a/b/metastore.db")
    monkeypatch.setenv("COMPACTOR_STATE_URL", f"sqlite:///{tmp_path}/c/d/state.db")
    monkeypatch.chdir(tmp_path)

    def run(*words: str, fails: str = "") -> None:
        ended = CliRunner().invoke(program, words)
        assert (ended.exit_code != 0) == bool(fails), ended.output
        assert fails in ended.output

    run("metastore", "init", "--warehouse", "w", fails="expected an absolute path or a URI")
    for _ in range(2):
        run("metastore", "init", "--warehouse", f"{tmp_path}/w/")
    run("metastore", "init")
    run("metastore", "init", "--warehouse", f"{tmp_path}/x", fails=f"its database default is at {tmp_path}/w, not at")
    run(
        "sql",
        "CREATE DATABASE shop; CREATE TABLE t (a int); CREATE TABLE shop.u (a int); INSERT INTO shop.u VALUES (1)",
    )
    assert (tmp_path / "w" / "t").is_dir()
    assert (tmp_path / "w" / "shop.db" / "u").is_dir()
    assert (tmp_path / "c" / "d" / "state.db").is_file()
    monkeypatch.setenv("COMPACTOR_STATE_URL", f"sqlite:///{tmp_path}/e/state.db")
    run("state", "init")
    assert (tmp_path / "e" / "state.db").is_file()

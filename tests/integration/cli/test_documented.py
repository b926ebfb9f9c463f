"""The documents' words about the command line for programs and shells."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

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

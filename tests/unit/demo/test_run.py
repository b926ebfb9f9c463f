from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from compactor.base.errors import Refused
from demo.run import Demo

ROOT = Path(__file__).parents[3]


@pytest.fixture
def console() -> Console:
    return Console(file=StringIO(), width=200)


@pytest.mark.parametrize("what", [Demo.run, Demo.up], ids=["run", "up"])
def test_a_folder_that_no_demo_made_is_left_alone(tmp_path: Path, console: Console, what: object) -> None:
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo" / "thesis.txt").write_text("years of work", "utf-8")
    demo = Demo(ROOT, tmp_path / "demo", console)
    with pytest.raises(Refused, match="no demo made it"):
        demo.run() if what is Demo.run else demo.up()
    assert [path.name for path in (tmp_path / "demo").iterdir()] == ["thesis.txt"]
    assert console.file.getvalue() == ""  # type: ignore[attr-defined]


def test_a_demo_is_made_without_touching_its_folder(tmp_path: Path, console: Console) -> None:
    Demo(ROOT, tmp_path / "demo", console, months=1, port=1)
    assert list(tmp_path.iterdir()) == []

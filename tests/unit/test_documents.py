"""What the documents name is there."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), ROOT / "tests/fixtures/README.md"])


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_between_documents_lead_somewhere(path: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", path.read_text("utf-8"))
    local = [link for link in links if "://" not in link]
    assert [link for link in local if not (path.parent / link).exists()] == []


def test_contributing_has_a_line_for_every_package() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    packages = [path.name for path in (ROOT / "compactor").iterdir() if (path / "__init__.py").is_file()]
    first_cells = "".join(line.split("|")[1] for line in text.splitlines() if line.startswith("| `"))
    assert packages
    assert [name for name in packages if f"{name}`" not in first_cells] == []


def test_every_decision_is_in_the_index() -> None:
    index = (ROOT / "docs/adr/README.md").read_text("utf-8")
    decisions = sorted(path.name for path in (ROOT / "docs/adr").glob("0*.md"))
    assert decisions
    assert [name for name in decisions if f"({name})" not in index] == []


def test_make_alone_lists_its_targets() -> None:
    done = subprocess.run(["make"], cwd=ROOT, capture_output=True, text=True, check=True)
    listed = re.findall(r"^make (\w+)", done.stdout, re.MULTILINE)
    assert listed == ["help", "setup", "demo", "up", "test", "lint", "bench", "torture", "clean"]

"""What the documents name is there."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from compactor.metastore.tables import TRANSACTION_TABLES

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
    listed = re.findall(r"^make ([\w-]+)", done.stdout, re.MULTILINE)
    assert listed == ["help", "setup", "demo", "up", "test", "lint", "dist-spark", "bench", "torture", "clean"]


def test_the_runbook_has_a_remedy_for_every_kind_of_error() -> None:
    classes = re.findall(r"^class (\w+)\(", (ROOT / "compactor/errors.py").read_text("utf-8"), re.MULTILINE)
    headings = re.findall(r"^## (\w+)$", (ROOT / "docs/runbook.md").read_text("utf-8"), re.MULTILINE)
    assert headings == [name for name in classes if name != "CompactorError"]


def test_the_grants_are_of_the_tables_that_are_written() -> None:
    text = (ROOT / "docs/production.md").read_text("utf-8")
    granted = re.search(r"GRANT INSERT, UPDATE, DELETE ON(.*?)\n *TO ", text, re.DOTALL)
    assert granted
    assert set(re.findall(r'"(\w+)"', granted.group(1))) == {table.name for table in TRANSACTION_TABLES}


def _cited(word: str) -> set[str]:
    pattern = re.compile(rf"{word} (\d+(?:\.\d+)?)")
    files = [path for folder in ("compactor", "tests", "benchmarks") for path in (ROOT / folder).rglob("*.py")]
    return {number for path in files for number in pattern.findall(path.read_text("utf-8"))}


def _numbered(document: str) -> set[str]:
    """``1`` for each section ``## 1. …`` and ``1.2`` for each of its numbered sentences."""
    found: set[str] = set()
    section = ""
    for line in (ROOT / document).read_text("utf-8").splitlines():
        if heading := re.match(r"## (\d+)\.", line):
            section = heading.group(1)
            found.add(section)
        elif section and (rule := re.match(r"(\d+)\. ", line)):
            found.add(f"{section}.{rule.group(1)}")
    return found


@pytest.mark.parametrize(("word", "document"), [("PROTOCOL", "docs/protocol.md"), ("DESIGN", "docs/design.md")])
def test_every_rule_that_code_cites_is_written_down(word: str, document: str) -> None:
    cited = _cited(word)
    assert cited
    assert sorted(cited - _numbered(document)) == []


def test_every_section_of_the_protocol_has_a_test_that_names_it() -> None:
    tests = "".join(path.read_text("utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    sections = {number for number in _numbered("docs/protocol.md") if "." not in number}
    assert sorted(s for s in sections if not re.search(rf"PROTOCOL {s}\b", tests)) == []

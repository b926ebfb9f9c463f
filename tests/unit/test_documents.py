"""Everything that the documents name is there."""

from __future__ import annotations

import ast
import re
import subprocess
from collections import Counter
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

from compactor.metastore.schema.tables import TRANSACTION_TABLES
from tests.support.sizes import WHOLE_FOLDERS

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), ROOT / "tests/fixtures/README.md"])


def test_links_between_documents_lead_somewhere() -> None:
    for path in DOCUMENTS:
        links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", path.read_text("utf-8"))
        local = [link for link in links if "://" not in link]
        assert [link for link in local if not (path.parent / link).exists()] == [], path


@cache
def _anchors(path: Path) -> set[str]:
    """The anchors of a document's headings, as GitHub and the site make them."""
    headings = re.findall(r"^#+ (.+)$", path.read_text("utf-8"), re.MULTILINE)
    plain = (re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower() for heading in headings)
    return {re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in plain}


def test_links_into_documents_lead_to_a_heading() -> None:
    for path in DOCUMENTS:
        links = re.findall(r"\]\(([^)#:]*)#([^)]*)\)", path.read_text("utf-8"))
        targets = [(path.parent / target if target else path, anchor) for target, anchor in links]
        assert [(str(target), anchor) for target, anchor in targets if anchor not in _anchors(target)] == [], path


def test_contributing_has_a_line_for_every_package() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    packages = [path.name for path in (ROOT / "compactor").iterdir() if (path / "__init__.py").is_file()]
    first_cells = "".join(line.split("|")[1] for line in text.splitlines() if line.startswith("| `"))
    assert packages
    assert [name for name in packages if f"{name}`" not in first_cells] == []


@pytest.mark.parametrize("folder", ["metastore", "orc", "rewrite", "site"])
def test_every_room_is_described(folder: str) -> None:
    """CONTRIBUTING has a line for each room that is a package; docs/architecture.md names all, single files included."""
    contributing = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    section = (ROOT / "docs/architecture.md").read_text("utf-8").partition(f"### `{folder}`")[2].partition("\n#")[0]
    paths = [path for path in (ROOT / "compactor" / folder).iterdir() if not path.name.startswith("__")]
    packages = [path.name for path in paths if path.is_dir()]
    assert paths
    assert [name for name in packages if f"| `compactor/{folder}/{name}` |" not in contributing] == []
    assert [path.stem for path in paths if f"`{path.stem}`" not in section] == []


def test_every_decision_is_in_the_index() -> None:
    index = (ROOT / "docs/adr/README.md").read_text("utf-8")
    decisions = sorted(path.name for path in (ROOT / "docs/adr").glob("0*.md"))
    assert decisions
    assert [name for name in decisions if f"({name})" not in index] == []


def test_make_alone_lists_its_targets() -> None:
    done = subprocess.run(["make"], cwd=ROOT, capture_output=True, text=True, check=True)
    listed = re.findall(r"^make ([\w-]+)", done.stdout, re.MULTILINE)
    assert listed == [
        "help",
        "setup",
        "demo",
        "up",
        "test",
        "test-all",
        "lint",
        "advisories",
        "dist-spark",
        "bench",
        "torture",
        "docs",
        "clean",
    ]


def test_the_parts_of_test_all_are_every_test_once() -> None:
    lines = re.findall(r"^TESTS_(\w+) :?\+?= (.*?)(?: ##.*)?$", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    parts = [(part, ROOT / path) for part, paths in lines for path in paths.split()]
    assert [path for _, path in parts if not path.exists()] == []
    tests = [path for path in (ROOT / "tests").rglob("test_*.py") if "fixtures" not in path.parts]
    assert [test for test in tests if sum(test.is_relative_to(path) for _, path in parts) != 1] == []
    contributing = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    listed = re.findall(r"^\| `(\w+)` \| ((?:`tests/[\w/.]+`(?:, )?)+) \|", contributing, re.MULTILINE)
    assert [(part, ROOT / path) for part, paths in listed for path in re.findall("`([^`]+)`", paths)] == parts


def test_the_runbook_has_a_remedy_for_every_kind_of_error() -> None:
    classes = re.findall(r"^class (\w+)\(", (ROOT / "compactor/base/errors.py").read_text("utf-8"), re.MULTILINE)
    headings = re.findall(r"^## (\w+)$", (ROOT / "docs/runbook.md").read_text("utf-8"), re.MULTILINE)
    assert headings == [name for name in classes if name != "CompactorError"]


def test_the_grants_are_of_the_tables_that_are_written() -> None:
    text = (ROOT / "docs/production.md").read_text("utf-8")
    granted = re.search(r"GRANT INSERT, UPDATE, DELETE ON(.*?)\n *TO ", text, re.DOTALL)
    assert granted
    assert set(re.findall(r'"(\w+)"', granted.group(1))) == {table.name for table in TRANSACTION_TABLES}


def _cited(word: str) -> set[str]:
    pattern = re.compile(rf"{word} (\d+(?:\.\d+){{0,2}})")
    files = [path for folder in ("compactor", "tests", "benchmarks") for path in (ROOT / folder).rglob("*.py")]
    return {number for path in files for number in pattern.findall(path.read_text("utf-8"))}


def _numbered(document: str) -> set[str]:
    """``1`` for each section ``## 1. …`` and ``1.2`` for each of its rules; ``1.2`` and ``1.2.3`` for ``### 1.2 …``."""
    found: set[str] = set()
    section = ""
    for line in (ROOT / document).read_text("utf-8").splitlines():
        if heading := re.match(r"## (\d+)\.|### (\d+\.\d+)", line):
            section = heading.group(1) or heading.group(2)
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


def _sections(document: str) -> dict[str, str]:
    """The text below each heading ``## 1. …``, by its number."""
    parts = re.split(r"^## (\d+)\..*\n", (ROOT / document).read_text("utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def _plain(section: str) -> str:
    """The section without subheadings, emphasis of whole sentences and list marks; a line is a paragraph."""
    return re.sub(r"^(?:### .*\n|(?:\d+\.|-) )", "", section, flags=re.MULTILINE).replace("**", "").strip()


def _sentence_starts(text: str) -> set[int]:
    return {0, *(m.end() for m in re.finditer(r"(?<=[.!?])\s+(?=[A-Z0-9`*])|\n+", text))}


@pytest.mark.parametrize("section", ["5", "7"])
def test_a_rule_is_one_sentence_with_a_number(section: str) -> None:
    lines = [
        line for line in _sections("docs/protocol.md")[section].splitlines() if line and not line.startswith("### ")
    ]
    assert [line for line in lines if not re.match(r"\d+\. ", line) or len(_sentence_starts(_plain(line))) > 1] == []


def _rows(section: str) -> list[list[str]]:
    """Opening words, home and tests of each rule."""
    lines = [line for line in section.splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


PROVEN = {number: _rows(text) for number, text in _sections("docs/internals/protocol-tests.md").items()}


@pytest.mark.parametrize("section", _sections("docs/protocol.md"))
def test_every_sentence_of_the_protocol_begins_with_a_row(section: str) -> None:
    text = _plain(_sections("docs/protocol.md")[section])
    begun: list[int] = []
    at = 0
    for words, *_ in PROVEN[section]:
        place = text.find(words, at)
        assert place >= 0, f"not in section {section}, or not behind the row before it: {words}"
        begun.append(place)
        at = place + len(words)
    assert [text[start : start + 60] for start in sorted(_sentence_starts(text) - set(begun))] == []


@pytest.mark.parametrize("section", PROVEN)
def test_what_hive_or_trino_was_seen_to_do_is_seen_again(section: str) -> None:
    """By a live test that a row of the sentence names; or the row says why there is none."""
    text = _plain(_sections("docs/protocol.md")[section])
    starts = [*sorted(_sentence_starts(text)), len(text)]
    places = [(text.find(words), tests) for words, _, tests in PROVEN[section]]
    for start, end in pairwise(starts):
        if "[seen]" in text[start:end]:
            named = [tests for place, tests in places if start <= place < end]
            assert any("`live/" in tests or "not live: " in tests for tests in named), text[start:end]


@cache
def _defined(path: Path) -> set[str]:
    """The names that a module defines, and its classes within."""
    found: set[str] = set()
    for node in ast.parse(path.read_text("utf-8")).body:
        names = _names(node)
        found |= names
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{name}" for inner in node.body for name in _names(inner)}
    return found


def _names(node: ast.stmt) -> set[str]:
    match node:
        case ast.FunctionDef() | ast.ClassDef():
            return {node.name}
        case ast.Assign(targets=targets):
            return {target.id for target in targets if isinstance(target, ast.Name)}
        case ast.AnnAssign(target=ast.Name(id=name)):
            return {name}
    return set()


def _is_there(folder: str, place: str) -> bool:
    path, _, name = place.partition("::")
    return (ROOT / folder / path).is_file() and (not name or name in _defined(ROOT / folder / path))


@pytest.mark.parametrize("section", PROVEN)
def test_a_rule_of_the_protocol_has_one_home_and_a_test(section: str) -> None:
    for words, home, tests in PROVEN[section]:
        named = re.findall(r"`([^`]+)`", tests)
        assert [test for test in named if "::test_" not in test or not _is_there("tests", test)] == [], words
        if home != "says why":
            assert re.fullmatch(r"`[^`]+`", home), words
            assert _is_there("compactor", home.strip("`")), words
            assert named, words
            assert [test for test in named if not f"tests/{test}".startswith(WHOLE_FOLDERS)], (
                f"not in make test: {words}"
            )


SECURITY = (ROOT / "docs/security.md").read_text("utf-8")


def test_the_tests_that_the_security_model_names_are_there() -> None:
    named = re.findall(r"`((?:security|unit|integration|contract|cluster|live|storage)/[^`]+)`", SECURITY)
    assert len(named) > 100
    assert [test for test in named if "::test_" not in test or not _is_there("tests", test)] == []


def test_each_promise_of_the_security_model_names_a_test() -> None:
    """Whatever is said between these two headings is a promise; what is none stands behind them."""
    promises = SECURITY.partition("## What each can cause at most")[2].partition("## What this does not cover")[0]
    rows = [line for line in promises.splitlines() if line.startswith("| ") and not line.endswith("| tests |")]
    assert len(rows) > 50
    assert [row for row in rows if "::test_" not in row.rstrip(" |").rpartition("|")[2]] == []


def test_each_sentence_between_the_promises_names_a_test_too() -> None:
    """But for what says who somebody is, below a heading, and what introduces a table."""
    promises = SECURITY.partition("## What each can cause at most")[2].partition("## What this does not cover")[0]
    paragraphs = [paragraph.strip() for paragraph in promises.strip().split("\n\n")]
    promised = [
        paragraph
        for before, paragraph in pairwise(paragraphs)
        if not paragraph.startswith(("|", "#")) and not paragraph.endswith(":") and not before.startswith("#")
    ]
    assert len(promised) >= 1
    assert [paragraph for paragraph in promised if "::test_" not in paragraph] == []


def test_each_kind_of_people_has_its_promises() -> None:
    """The last column of the threat model leads to a section with rows."""
    model = SECURITY.partition("## Who is trusted with what")[2].partition("## What each can cause")[0]
    _, site, *others = [line for line in model.splitlines() if line.startswith("| ")]
    assert site.endswith("| nothing |")
    titles = re.findall("(?m)^### (.+)$", SECURITY)
    headings = {re.sub(r"[^a-z0-9 -]", "", title.lower()).replace(" ", "-") for title in titles}
    for who in others:
        sections = set(re.findall(r"\(#([^)]+)\)", who))
        assert sections, who
        assert sections <= headings, who


def test_each_bug_of_hives_compactor_has_a_test_that_we_have_none() -> None:
    rows = _rows((ROOT / "docs/hives-bugs.md").read_text("utf-8"))
    assert len(rows) > 10
    for bug, *_, shown in rows:
        named = re.findall(r"`([^`]+)`", shown)
        assert re.fullmatch(r"HIVE-\d+(?:, HIVE-\d+)*", bug), bug
        assert named, bug
        assert [test for test in named if "::test_" not in test or not _is_there("tests", test)] == [], bug


WAS = ("*live*", "*fixtures*", "*emulator*", "*expected*", "*refused*")
COMPATIBILITY = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in (ROOT / "docs/compatibility.md").read_text("utf-8").splitlines()
    if line.startswith("| ") and not line.startswith("| what |")
]


def test_what_was_run_is_shown_by_tests_that_exist() -> None:
    """docs/compatibility.md: whoever claims more than an expectation names a test."""
    for row, was, shown in COMPATIBILITY:
        assert was in WAS, row
        tests = re.findall(r"`((?:[a-z0-9_]+/)+test_\w+\.py(?:::\w+)?)`", shown)
        is_every_test = was == "*live*" and shown == "every test"
        assert tests or was == "*expected*" or is_every_test or "requirements" in shown, row
        assert [test for test in tests if not _is_there("tests", test)] == [], row


def test_the_readme_leaves_what_was_run_to_one_page() -> None:
    assert "(docs/compatibility.md)" in (ROOT / "README.md").read_text("utf-8")


def test_no_docstring_begins_with_a_headless_relative() -> None:
    """It says what a thing is or does: a noun phrase or a verb comes first."""
    found = re.compile(r'^ *"""(?:What|Whether|Which|Who|How)\b.*', re.MULTILINE)
    folders = ("compactor", "demo", "dags", "plugins", "benchmarks", "tools", "tests")
    sources = [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]
    assert len(sources) > 500
    assert [(str(path), line) for path in sources for line in found.findall(path.read_text("utf-8"))] == []


def test_class_names_are_unique_and_first_lines_short() -> None:
    """The one name used twice is that of a table: the metastore's, and the one that programs open."""
    classes: list[str] = []
    for path in sorted((ROOT / "compactor").rglob("*.py")):
        text = path.read_text("utf-8")
        assert re.findall(r'(?:\A|:\n *)"""((?:(?!""").){101})', text) == [], path
        classes += re.findall(r"^ *class (\w+)", text, re.MULTILINE)
    assert [name for name, uses in Counter(classes).items() if uses > 1] == ["Table"]

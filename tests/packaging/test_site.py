"""The documents as a site, as `make docs` builds it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = (
    "docs",
    "docker",
    "benchmarks",
    "tests/live/README.md",
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "LICENSE",
    "tools",
    "mkdocs.yml",
)


def build(source: Path, site: Path) -> str:
    """Builds the site, and returns what was said if that failed."""
    command = ["mkdocs", "build", "--config-file", str(source / "mkdocs.yml"), "--site-dir", str(site)]
    done = subprocess.run(command, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True)
    said = done.stdout + done.stderr
    assert (done.returncode == 0) == ("WARNING" not in said), said
    return said if done.returncode else ""


class Page(HTMLParser):
    """The places that a page links to, and those within it that can be linked to."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        for name, value in attributes:
            if name in ("href", "src") and value:
                self.links.append(value)
            if name in ("id", "name") and value:
                self.anchors.add(value)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    assert build(ROOT, folder) == ""
    return folder


def test_every_link_within_the_site_leads_somewhere(site: Path) -> None:
    pages = {path: Page(path) for path in site.rglob("*.html") if path.name != "404.html"}
    assert len(pages) > 60
    broken = []
    for path, page in pages.items():
        for link in page.links:
            target, _, anchor = unquote(link).partition("#")
            if re.match(r"[a-z]+:|//", target):
                continue
            place = (path.parent / target).resolve() if target else path
            place = place / "index.html" if place.is_dir() else place
            if not place.is_file() or (anchor and place in pages and anchor not in pages[place].anchors | {"__skip"}):
                broken.append(f"{path.relative_to(site)}: {link}")
    assert broken == []


def test_a_reader_needs_nobody_else(site: Path) -> None:
    """Fonts, scripts and images are the site's own."""
    for path in site.rglob("*.html"):
        foreign = re.findall(r"<(?:link|script|img)[^>]*(?:href|src)=\"?(https?://[^\"> ]+)", path.read_text("utf-8"))
        assert foreign == [], path


def test_the_readme_is_the_first_page_and_the_way_through(site: Path) -> None:
    first = (site / "index.html").read_text("utf-8")
    for group in ("Start", "Operate", "Reference", "Internals"):
        assert re.search(rf"\s{group}\s", first), group
    assert "page-overview-light.png" in first


@pytest.mark.parametrize(
    ("document", "text"),
    [
        ("docs/metrics.md", "[nowhere](nowhere.md)"),
        ("README.md", "[nowhere](docs/nowhere.md)"),
        ("docs/adr/0017-rooms.md", "[nowhere](../architecture.md#nowhere)"),
        ("docs/nowhere.md", "# A document to which README.md has no link"),
    ],
)
def test_a_link_that_leads_nowhere_fails_the_build(document: str, text: str, tmp_path: Path) -> None:
    for name in SOURCES:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        copy(ROOT / name, tmp_path / name)
    with (tmp_path / document).open("a", encoding="utf-8") as file:
        file.write(f"\n{text}\n")
    assert "nowhere" in build(tmp_path, tmp_path / "site")

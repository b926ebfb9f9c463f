"""Hooks of MkDocs: README.md is the site's first page and its navigation, and what the documents link to outside of docs/ is
part of the site."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
#: Pages of files outside of docs/; any other file or folder that a document links to becomes a page below files/.
_PAGES = {"README.md": "index.md", "CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md"}
_LINK = re.compile(r"(?P<before>\]\()(?P<target>[^)\s#:]+)(?P<anchor>#[^)\s]*)?(?P<after>\))")
_GROUP = re.compile(r"^\*\*(?P<name>\w+)\*\*\n(?P<links>.*?)(?=^\*\*\w+\*\*\n|^Licensed|\Z)", re.MULTILINE | re.DOTALL)
#: A list right below a paragraph, which GitHub takes for one and MkDocs does not.
_LIST = re.compile(r"^(?!\s|[*-] |\d+\. |\||#|>)(.+)\n(?=(?:[*-]|1\.) )", re.MULTILINE)
_LANGUAGES = {".yml": "yaml", ".yaml": "yaml", ".json": "json", ".service": "ini", ".toml": "toml", ".sql": "sql"}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Takes the navigation from the groups of links in README.md; decisions come below their index."""
    nav: list[Any] = [{"Compactor": "index.md"}]
    for group in _GROUP.finditer((ROOT / "README.md").read_text("utf-8")):
        targets = (ROOT / found["target"] for found in _LINK.finditer(group["links"]))
        nav.append({group["name"]: [_entry(place) for place in targets]})
    config.nav = nav
    return config


def _entry(place: Path) -> Any:
    if place.parent.name != "adr":
        return _site_path(place)
    decisions = sorted(path.relative_to(DOCS).as_posix() for path in place.parent.glob("0*.md"))
    return {"Decisions": ["adr/README.md", *decisions]}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the files and folders outside of docs/ that a document links to."""
    added: set[str] = {file.src_uri for file in files}
    waiting = [*DOCS.rglob("*.md"), ROOT / "README.md"]
    while waiting:
        document = waiting.pop()
        if (uri := _site_path(document)) not in added:
            added.add(uri)
            files.append(File.generated(config, uri, content=_content(document)))
        if document.suffix == ".md":
            waiting += [place for place in _targets(document) if place.exists() and _site_path(place) not in added]
    return files


def _targets(document: Path) -> Iterator[Path]:
    for found in _LINK.finditer(document.read_text("utf-8")):
        yield Path(os.path.normpath(document.parent / found["target"]))


def _content(document: Path) -> str | bytes:
    if document.suffix == ".md":
        return document.read_text("utf-8")
    if document.suffix in (".png", ".svg"):
        return document.read_bytes()
    parts = sorted(path for path in document.rglob("*") if path.is_file()) if document.is_dir() else [document]
    return "\n".join((f"# {document.relative_to(ROOT)}\n", *map(_shown, parts)))


def _shown(path: Path) -> str:
    language = _LANGUAGES.get(path.suffix, "text")
    return f"## {path.name}\n\n```{language}\n{path.read_text('utf-8')}\n```\n"


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Makes links to places of the repository links to pages of the site, and lists what GitHub shows as lists."""
    source = _source_of(page.file.src_uri)

    def rewritten(found: re.Match[str]) -> str:
        place = Path(os.path.normpath(source.parent / found["target"]))
        if not place.exists():  # left as it is, for MkDocs to complain of
            return found[0]
        target = os.path.relpath(_site_path(place), Path(page.file.src_uri).parent)
        return f"{found['before']}{target}{found['anchor'] or ''}{found['after']}"

    return _LIST.sub(r"\1\n\n", _LINK.sub(rewritten, markdown))


@cache
def _site_path(place: Path) -> str:
    """Returns the path of a page, by the path of what it shows."""
    if place.is_relative_to(DOCS):
        return place.relative_to(DOCS).as_posix()
    path = place.relative_to(ROOT).as_posix()
    if path in _PAGES:
        return _PAGES[path]
    return f"files/{path}" if path.endswith((".md", ".png", ".svg")) else f"files/{path}.md"


def _source_of(uri: str) -> Path:
    """Returns what the page of this path shows."""
    for path, page in _PAGES.items():
        if page == uri:
            return ROOT / path
    return ROOT / uri.removeprefix("files/") if uri.startswith("files/") else DOCS / uri

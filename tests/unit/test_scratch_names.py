"""Names that the package makes where others may make names, too (docs/security.md)."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "compactor"
MODULES = sorted(PACKAGE.rglob("*.py"))
#: Each makes a name of mode 0700 or 0600 that is not there, or takes one that has no name.
PRIVATE = {"TemporaryDirectory", "TemporaryFile", "NamedTemporaryFile", "mkdtemp", "mkstemp", "gettempdir"}


def used(module: Path) -> set[str]:
    """Returns what a module uses of ``tempfile``."""
    text = module.read_text("utf-8")
    if "tempfile" not in text:
        return set()
    tree = ast.parse(text)
    attributes = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "tempfile"
    }
    names = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "tempfile"
        for alias in node.names
    }
    return attributes | names


@pytest.mark.parametrize("module", MODULES, ids=lambda module: str(module.relative_to(PACKAGE)))
def test_a_scratch_name_is_private_and_new(module: Path) -> None:
    assert used(module) <= PRIVATE


def test_the_modules_that_are_looked_at_make_such_names() -> None:
    assert sum(bool(used(module)) for module in MODULES) > 5

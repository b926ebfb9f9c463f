"""Names that the package makes where others may make names, too (docs/security.md)."""

from __future__ import annotations

import ast
from pathlib import Path

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


def test_a_scratch_name_is_private_and_new() -> None:
    names = {str(module.relative_to(PACKAGE)): used(module) for module in MODULES}
    assert {module: public for module, used in names.items() if (public := used - PRIVATE)} == {}
    assert sum(map(bool, names.values())) > 5

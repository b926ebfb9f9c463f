from __future__ import annotations

import pytest

from compactor.acid.tree import Anchor, Tree, final_name, is_or_was_acid

ANCHOR = Anchor(volume="file:1", identity="x")


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("p=7/delta_0000002_0000002_0000", "delta_0000002_0000002_0000"),
        ("base_0000005", "base_0000005"),
        ("p=7/.compactor_obsolete_12_delta_0000002_0000002", "delta_0000002_0000002"),
        (".compactor_obsolete_12_p=7__000000_0", "000000_0"),
        ("p=7", "p=7"),
    ],
)
def test_a_hidden_directory_has_the_name_that_it_had(path: str, name: str) -> None:
    assert final_name(path) == name


@pytest.mark.parametrize(
    ("path", "is_written"),
    [("p=7/delta_0000002_0000002", True), ("base_x", True), ("p=7", False), ("lost+found", False)],
)
def test_a_writer_left_what_looks_like_a_base_or_delta(path: str, is_written: bool) -> None:
    assert is_or_was_acid(path) is is_written


@pytest.mark.parametrize(
    ("directories", "files", "is_bare"),
    [
        ((), {}, True),
        (("lost+found", "p=1", "p=2"), {}, True),
        (("p=1",), {"": 1}, False),
        (("p=1", "p=1/delta_0000002_0000002"), {}, False),
        (("a", "a/b"), {"a/b": 2}, False),
    ],
)
def test_a_tree_is_bare_without_files_and_directories_of_writers(
    directories: tuple[str, ...], files: dict[str, int], is_bare: bool
) -> None:
    assert Tree(anchor=ANCHOR, directories=directories, files=files).is_bare is is_bare


def test_a_directory_in_it_may_be_bare() -> None:
    tree = Tree(
        anchor=ANCHOR,
        directories=("p=1", "p=1/delta_0000002_0000002", "p=10", "p=2", "p=2/q=1"),
        files={"p=10": 1, "p=2/q=1": 1},
    )
    assert [path for path in ("p=1", "p=10", "p=2", "p=2/q=1", "p=3") if tree.is_bare_at(path)] == ["p=3"]

"""The files of a metastore's marks: immutable, the largest number counts, few of them (PROTOCOL 11.2)."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from compactor.base.errors import StorageError
from compactor.base.ids import TxnId
from compactor.compaction.mark_comparison import Marks, MarkToken, Remembered
from compactor.site.mark_files import MarkFiles
from compactor.storage.local import LocalStorage


def remembered(number: int, text: str = "abc") -> Remembered:
    return Remembered(token=MarkToken(number=number, text=text, at=number), marks=Marks(newest=TxnId(number)))


def opened(folder: Path, name: str = "default", base: Path | None = None) -> MarkFiles:
    return MarkFiles(LocalStorage(), f"file:{folder}", name, None if base is None else str(base))


def names(files: MarkFiles) -> list[str]:
    return sorted(os.listdir(files.place))


def test_what_was_added_last_is_the_newest(tmp_path: Path) -> None:
    files = opened(tmp_path / "a" / "b", base=tmp_path)
    assert files.newest() == ()
    assert files.largest_number() == 0
    for number in (1, 2, 3):
        files.add(remembered(number))
        assert files.newest() == opened(tmp_path / "a" / "b").newest() == (remembered(number),)
    assert files.largest_number() == 3


def test_a_number_that_no_database_takes_is_nobodys(tmp_path: Path) -> None:
    """Whoever may write there must not make an agreement impossible."""
    files = opened(tmp_path)
    files.add(remembered(7))
    for number in ("9" * 20, f"0{'9' * 19}"):
        Path(files.place, f"marks-{number}-abc.json").write_text("{}")
    assert (files.newest(), files.largest_number()) == ((remembered(7),), 7)


def test_a_slow_process_does_not_hide_what_is_newer(tmp_path: Path) -> None:
    opened(tmp_path).add(remembered(7))
    opened(tmp_path).add(remembered(5))
    assert opened(tmp_path).newest() == (remembered(7),)


def test_each_of_two_files_with_one_number_is_returned(tmp_path: Path) -> None:
    opened(tmp_path).add(remembered(7))
    opened(tmp_path).add(remembered(7, "xyz"))
    assert {file.token.text for file in opened(tmp_path).newest()} == {"abc", "xyz"}


def test_few_files_stay(tmp_path: Path) -> None:
    """Also of those that were begun and never finished, but not what may still be on its way."""
    files = opened(tmp_path)
    for number in range(1, 121):
        (tmp_path / "default").mkdir(exist_ok=True)
        (tmp_path / "default" / f".marks-{number:020d}-dead.json").write_text("{")
        files.add(remembered(number))
    kept = names(files)
    assert [name for name in kept if not name.startswith(".")] == [f"marks-{n:020d}-abc.json" for n in (118, 119, 120)]
    assert len(kept) == 3 + 101
    assert files.newest() == (remembered(120),)


def test_a_file_that_is_removed_while_it_is_read_is_followed_by_a_newer_one(tmp_path: Path) -> None:
    class Removing(LocalStorage):
        def read(self, path: str) -> bytes:
            if "-old" in path:
                os.unlink(path)
                opened(tmp_path).add(remembered(9))
            return super().read(path)

    opened(tmp_path).add(remembered(2, "old"))
    assert MarkFiles(Removing(), str(tmp_path), "default").newest() == (remembered(9),)


@pytest.mark.parametrize("content", ["", "{", "[]", '{"format": 2}'])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, content: str) -> None:
    files = opened(tmp_path)
    files.add(remembered(1))
    (name,) = names(files)
    Path(files.place, name).write_text(content)
    with pytest.raises(StorageError, match=rf"{name}: what is remembered of this metastore cannot be read"):
        opened(tmp_path).newest()
    assert opened(tmp_path).largest_number() == 1


def test_a_place_that_cannot_be_listed_or_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "default").write_text("a file")
    with pytest.raises(StorageError, match=f"{tmp_path}/default"):
        opened(tmp_path).newest()
    with pytest.raises(StorageError, match=f"{tmp_path}/default"):
        opened(tmp_path).add(remembered(1))


def test_a_folder_that_is_away_is_not_made_again(tmp_path: Path) -> None:
    """PROTOCOL 11.2: it is on a disk that is not mounted, which would be taken for a memory without files."""
    files = opened(tmp_path / "away" / "memory", base=tmp_path / "away")
    for act in (files.newest, lambda: files.add(remembered(1))):
        with pytest.raises(
            StorageError, match=f"since {tmp_path}/away is not there; .* Mount it, create it, or name another"
        ):
            act()
    assert os.listdir(tmp_path) == []


def test_nothing_stays_of_a_file_that_could_not_be_made_durable(tmp_path: Path) -> None:
    class Full(LocalStorage):
        def sync(self, paths: object) -> dict[str, StorageError]:
            return {"x": StorageError("cannot sync x: No space left on device")}

    files = MarkFiles(Full(), str(tmp_path), "default")
    with pytest.raises(StorageError, match="No space left"):
        files.add(remembered(1))
    assert names(files) == []


def test_strange_names_do_not_meet(tmp_path: Path) -> None:
    """A metastore's name is one path segment; names beside the files are no files of marks."""
    opened(tmp_path, "../a/b").add(remembered(1))
    assert sorted(os.listdir(tmp_path)) == ["..%2Fa%2Fb"]
    (tmp_path / "default").mkdir()
    for name in ("README", "marks-1-abc.json", "marks-00000000000000000009-abc.json.aside"):
        (tmp_path / "default" / name).write_text("{}")
    assert opened(tmp_path).newest() == ()


def test_an_agreement_is_kept_for_good(tmp_path: Path) -> None:
    files = opened(tmp_path)
    files.add(remembered(3))
    path = files.add_agreement(3, "abc", {"by": "ann"})
    for number in range(1000, 1010):
        files.add(remembered(number))
    assert json.loads(Path(path).read_text()) == {"by": "ann"}
    assert files.newest() == (replace(remembered(1009)),)

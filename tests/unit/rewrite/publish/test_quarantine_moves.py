"""Moving into quarantine, back, and erasing it (PROTOCOL 11.15)."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from compactor.base.errors import BadFile, Disagreement, StorageError
from compactor.rewrite.publish import quarantine_moves
from compactor.rewrite.publish.removal import identities
from compactor.storage.local import LocalStorage
from tests.support.watching import names_in
from tests.unit.compaction.test_quarantine_rules import RECORD

STORAGE = LocalStorage()
DELTA, BASE = "delta_0000001_0000001_0000", "base_0000001_v0000031"
HERE = ".compactor_quarantine_12"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A location with a delta, an original file in a sub-directory, and an empty quarantine."""
    for name in (f"{DELTA}/bucket_00000", f"{DELTA}/_orc_acid_version", "sub/000001_0", f"{BASE}/bucket_00000"):
        path = tmp_path / "t" / name
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_bytes(name.encode())
    (tmp_path / "t" / HERE).mkdir()
    return tmp_path / "t"


def take(place: Path, *names: str, storage: LocalStorage = STORAGE) -> tuple[str, ...]:
    return quarantine_moves.take(storage, str(place), 12, names, identities(storage, str(place), names))


def test_what_is_taken_is_out_of_every_readers_sight_and_comes_back_as_it_was(place: Path) -> None:
    before = STORAGE.listing(str(place))
    assert take(place, DELTA, "sub/000001_0", "delta_0000009_0000009_0000") == (DELTA, "sub/000001_0")
    assert STORAGE.listing(str(place)).directories == (BASE, "sub")
    assert [file.path for file in STORAGE.listing(str(place)).files] == [f"{BASE}/bucket_00000"]
    assert [file.path for file in quarantine_moves.listing(STORAGE, str(place), 12).files] == [
        f"{DELTA}/_orc_acid_version",
        f"{DELTA}/bucket_00000",
        "sub/000001_0",
    ]
    quarantine_moves.put_back(STORAGE, str(place), 12, [DELTA, "sub/000001_0"])
    assert STORAGE.listing(str(place)) == before
    assert quarantine_moves.listing(STORAGE, str(place), 12).files == ()


def test_a_quarantine_that_cannot_be_listed_is_not_taken_for_empty(place: Path) -> None:
    """PROTOCOL 11.10."""

    class Stale(LocalStorage):
        def listing(self, path: str):  # type: ignore[no-untyped-def]
            raise BadFile(f"directory {path}: the metastore names it and it does not exist")

    with pytest.raises(StorageError, match="exists and cannot be listed"):
        quarantine_moves.listing(Stale(), str(place), 12)


def test_a_table_that_was_made_again_has_no_quarantine_to_move_into(place: Path) -> None:
    """PROTOCOL 11.8: the directories of the new table stay."""
    expected = identities(STORAGE, str(place), [DELTA])
    os.rename(place, old := place.parent / "old")
    place.mkdir()
    os.rename(old / DELTA, place / DELTA)  # the same one, so that nothing but the quarantine tells
    with pytest.raises(StorageError):
        quarantine_moves.take(STORAGE, str(place), 12, [DELTA], expected)
    assert names_in(place) == {DELTA}


@pytest.mark.parametrize("when", ["before", "in the same moment"])
def test_what_was_made_again_under_the_name_is_left_alone(place: Path, when: str) -> None:
    """PROTOCOL 11.8."""

    def make_again() -> None:
        os.rename(place / DELTA, place.parent / "gone")
        (place / DELTA).mkdir()
        (place / DELTA / "bucket_00000").write_bytes(b"new")

    class Late(LocalStorage):
        def rename(self, source: str, target: str, *, durable: bool = True) -> None:
            if when == "in the same moment" and target == f"{place}/{HERE}/{DELTA}":
                make_again()
            super().rename(source, target, durable=durable)

    expected = identities(STORAGE, str(place), [DELTA])
    if when == "before":
        make_again()
    with pytest.raises(Disagreement, match="was created after the decision to take away"):
        quarantine_moves.take(Late(), str(place), 12, [DELTA], expected)
    assert (place / DELTA / "bucket_00000").read_bytes() == b"new"
    assert names_in(place / HERE) == set()


@pytest.mark.parametrize("is_gone", [True, False])
def test_what_another_cleaner_took_is_no_failure(place: Path, is_gone: bool) -> None:
    class Beaten(LocalStorage):
        def rename(self, source: str, target: str, *, durable: bool = True) -> None:
            if is_gone:
                super().rename(source, target, durable=durable)
            raise StorageError(f"cannot rename to {target}")

    if is_gone:
        assert take(place, DELTA, storage=Beaten()) == ()
    else:
        with pytest.raises(StorageError, match="cannot rename"):
            take(place, DELTA, storage=Beaten())


def test_the_record_is_whole_or_not_there(place: Path) -> None:
    assert quarantine_moves.read_record(STORAGE, str(place), 12) is None
    (place / HERE / "_record.new").write_bytes(b"{")  # of a process that died
    quarantine_moves.write_record(STORAGE, str(place), RECORD)
    assert quarantine_moves.read_record(STORAGE, str(place), 12) == RECORD
    again = replace(RECORD, until=6000)
    quarantine_moves.write_record(STORAGE, str(place), again)
    assert quarantine_moves.read_record(STORAGE, str(place), 12) == again
    assert names_in(place / HERE) == {"_record.json"}
    assert quarantine_moves.listing(STORAGE, str(place), 12).files == ()


def test_it_is_erased_under_another_name(place: Path) -> None:
    """PROTOCOL 7.3: never by halves under the name that a restore looks for."""
    take(place, DELTA)
    removed: list[str] = []

    class Seen(LocalStorage):
        def remove(self, path: str, *, durable: bool = True) -> None:
            removed.append(Path(path).name)
            super().remove(path, durable=durable)

    (place / f"{HERE}_erased" / "left").mkdir(parents=True)  # by a process that died
    quarantine_moves.erase(Seen(), str(place), 12)
    quarantine_moves.erase(Seen(), str(place), 12)
    assert set(removed) == {f"{HERE}_erased"}
    assert names_in(place) == {"sub", BASE}


def test_one_that_was_made_while_another_was_erased_stays(place: Path) -> None:
    """PROTOCOL 11.8."""

    class Late(LocalStorage):
        def rename(self, source: str, target: str, *, durable: bool = True) -> None:
            if source == f"{place}/{HERE}":
                os.rename(source, place.parent / "gone")
                (place / HERE).mkdir()
            super().rename(source, target, durable=durable)

    with pytest.raises(Disagreement, match="was created after the decision"):
        quarantine_moves.erase(Late(), str(place), 12)
    assert (place / HERE).is_dir()


def test_a_record_of_gigabytes_is_not_read(place: Path) -> None:
    """Whoever may write in the directory may put one there, and it takes nothing on a disk."""
    with open(place / HERE / "_record.json", "wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(BadFile, match="no record has more than"):
        quarantine_moves.read_record(STORAGE, str(place), 12)

"""Hiding directories by one rename each, and removing leftovers (PROTOCOL 3.1, 7)."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from compactor.base.errors import Disagreement, LostClaim, StorageError
from compactor.base.ids import TxnId
from compactor.rewrite.publish import removal
from compactor.rewrite.publish.removal import identities, rename_same
from compactor.storage.capabilities import Capabilities
from compactor.storage.local import LocalStorage
from tests.support.watching import names_in

STORAGE = LocalStorage()
PAIR = ("delta_0000002_0000003_v0000042", "delete_delta_0000002_0000003_v0000042")


def test_hidden_names_contain_the_transaction_and_the_final_name(tmp_path: Path) -> None:
    """PROTOCOL 7.3: renamed first, so that nobody sees half of a directory."""
    (tmp_path / "base_0000003").mkdir()
    (tmp_path / "base_0000003" / "bucket_00000").write_bytes(b"1")
    (tmp_path / "000000_0").write_bytes(b"1")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "000001_0").write_bytes(b"1")
    hidden = removal.hide(STORAGE, str(tmp_path), ["base_0000003", "000000_0", "sub/000001_0", "gone"], until=TxnId(9))
    assert hidden == (
        ".compactor_obsolete_9_base_0000003",
        ".compactor_obsolete_9_000000_0",
        ".compactor_obsolete_9_sub__000001_0",
    )
    assert names_in(tmp_path) == {*hidden, "sub"}
    assert (tmp_path / hidden[0] / "bucket_00000").is_file()
    assert STORAGE.listing(str(tmp_path)).files == ()


def test_hiding_a_name_that_was_hidden_before(tmp_path: Path) -> None:
    for content in (b"old", b"new"):
        (tmp_path / "base_0000003").mkdir()
        (tmp_path / "base_0000003" / "bucket_00000").write_bytes(content)
        (hidden,) = removal.hide(STORAGE, str(tmp_path), ["base_0000003"], until=TxnId(9))
    assert (tmp_path / hidden / "bucket_00000").read_bytes() == b"new"


def test_leftovers_of_the_dead_go_and_those_of_the_living_stay(tmp_path: Path) -> None:
    """PROTOCOL 3.1 and 7.2: staging directories of ended transactions; hidden directories strictly below the gate."""
    names = [
        ".compactor_v1",
        ".compactor_v2",
        ".compactor_obsolete_5_base_0000001",
        ".compactor_obsolete_6_base_0000002",
        "base_0000003",
        "_tmp",
    ]
    for name in names:
        (tmp_path / name).mkdir()
    removed = removal.remove_leftovers(STORAGE, str(tmp_path), is_alive=lambda txn: txn == 2, lowest_open=TxnId(6))
    assert removed == (".compactor_obsolete_5_base_0000001", ".compactor_v1")
    assert names_in(tmp_path) == set(names) - set(removed)


@pytest.mark.parametrize("is_gone", [True, False])
def test_a_directory_that_another_cleaner_took_is_no_failure(tmp_path: Path, is_gone: bool) -> None:
    class Beaten(LocalStorage):
        def rename_each(self, path: str, names: Mapping[str, str]) -> Iterator[str]:
            for old, new in names.items():
                if is_gone and old == "base_0000001":
                    super().remove(f"{path}/{old}")
                if old == "base_0000001":
                    raise StorageError(f"cannot rename to {path}/{new}: No such file or directory")
                yield from super().rename_each(path, {old: new})

    for name in ("base_0000001", "base_0000002"):
        (tmp_path / name).mkdir()
    names = ["base_0000001", "base_0000002"]
    if is_gone:
        (hidden,) = removal.hide(Beaten(), str(tmp_path), names, until=TxnId(9))
        assert hidden.endswith("base_0000002")
        assert names_in(tmp_path) == {hidden}
    else:
        with pytest.raises(StorageError, match="cannot rename"):
            removal.hide(Beaten(), str(tmp_path), names, until=TxnId(9))


def made_again(path: Path) -> None:
    """As DROP TABLE and CREATE TABLE with an INSERT make it."""
    shutil.rmtree(path)
    path.mkdir()
    (path / "bucket_00000").write_bytes(b"new")


@pytest.mark.parametrize("when", ["before", "in the same moment"])
def test_what_was_made_again_under_the_name_is_left_alone(tmp_path: Path, when: str) -> None:
    """PROTOCOL 11.8: bound to the directory, not to its path."""
    place = tmp_path / "delta_0000001_0000001_0000"
    place.mkdir()
    (place / "bucket_00000").write_bytes(b"old")

    class Late(LocalStorage):
        def rename_each(self, path: str, names: Mapping[str, str]) -> Iterator[str]:
            if when == "in the same moment" and place.name in names:
                made_again(place)
            return super().rename_each(path, names)

    storage = Late()
    expected = identities(storage, str(tmp_path), [place.name])
    if when == "before":
        made_again(place)
    with pytest.raises(Disagreement, match="was created after the decision to take away what had this name"):
        removal.hide(storage, str(tmp_path), [place.name], TxnId(0), expected)
    assert (names_in(tmp_path), (place / "bucket_00000").read_bytes()) == ({place.name}, b"new")


def test_what_was_made_again_is_left_alone_where_there_is_no_rename_either(tmp_path: Path) -> None:
    """PROTOCOL 11.8."""

    class WithoutRename(LocalStorage):
        def capabilities(self, path: str) -> Capabilities:
            return replace(super().capabilities(path), renames=False)

    place = tmp_path / "delta_0000001_0000001_0000"
    place.mkdir()
    expected = identities(STORAGE, str(tmp_path), [place.name])
    place.rename(tmp_path / "moved")
    place.mkdir()
    with pytest.raises(Disagreement, match="was created after the decision to take away"):
        removal.hide(WithoutRename(), str(tmp_path), [place.name], TxnId(0), expected)
    assert place.exists()


def test_what_is_still_itself_is_hidden(tmp_path: Path) -> None:
    (tmp_path / "base_0000001").mkdir()
    expected = identities(STORAGE, str(tmp_path), ["base_0000001", "gone"])
    (tmp_path / "base_0000001" / "late").write_bytes(b"1")  # of the same table all the same
    assert removal.hide(STORAGE, str(tmp_path), ["base_0000001", "gone"], TxnId(0), expected) != ()
    assert expected["gone"] is None


def test_what_was_hidden_together_is_put_back_together(tmp_path: Path) -> None:
    """PROTOCOL 11.8.3"""
    names = {"base_0000001", "delta_0000002_0000002_0000"}
    for name in names:
        (tmp_path / name).mkdir()
    hiding = removal.Hiding(STORAGE, str(tmp_path))
    hiding.hide(sorted(names), TxnId(0))
    assert names_in(tmp_path) == {Path(path).name for path in hiding.paths}
    hiding.put_back()
    assert (names_in(tmp_path), hiding.paths) == (names, [])


def test_what_is_gone_while_it_was_hidden_keeps_nothing_else_hidden(tmp_path: Path) -> None:
    """PROTOCOL 11.8.3: a directory of readers may be replaced as a whole meanwhile, and with it some of what was hidden."""
    names = ["base_0000001", "delta_0000002_0000002_0000"]
    for name in names:
        (tmp_path / name).mkdir()
    hiding = removal.Hiding(STORAGE, str(tmp_path))
    hiding.hide(names, TxnId(0))
    shutil.rmtree(hiding.paths[0])
    hiding.put_back()
    assert (names_in(tmp_path), hiding.paths) == ({names[1]}, [])


def test_an_error_leaves_those_before_it_hidden(tmp_path: Path) -> None:
    class Stuck(LocalStorage):
        def rename_each(self, path: str, names: Mapping[str, str]) -> Iterator[str]:
            for old, new in names.items():
                if "delta" in old:
                    raise StorageError(f"cannot rename {path}/{old}")
                yield from super().rename_each(path, {old: new})

    for name in ("base_0000001", "delta_0000002_0000002_0000"):
        (tmp_path / name).mkdir()
    hiding = removal.Hiding(Stuck(), str(tmp_path))
    with pytest.raises(StorageError, match="cannot rename"):
        hiding.hide(["base_0000001", "delta_0000002_0000002_0000"], TxnId(0))
    assert set(hiding.hidden) == {"base_0000001"}
    hiding.put_back()
    assert "base_0000001" in names_in(tmp_path)


def test_names_are_made_durable_together(tmp_path: Path) -> None:
    synced: list[list[str]] = []

    class Watched(LocalStorage):
        def sync_names(self, paths: Collection[str]) -> Mapping[str, StorageError]:
            synced.append(sorted(Path(path).name for path in paths))
            return super().sync_names(paths)

    for name in ("base_0000001", "base_0000002"):
        (tmp_path / name).mkdir()
    hidden = removal.hide(Watched(), str(tmp_path), ["base_0000001", "base_0000002"], TxnId(0))
    assert synced == [sorted(hidden)]
    assert names_in(tmp_path) == set(hidden)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    made = tmp_path / "base_0000001"
    made.mkdir()
    return made


def renamed(place: Path, identity: str | None, storage: LocalStorage = STORAGE) -> bool:
    return rename_same(storage, str(place), f"{place.parent}/_taken", identity)


def test_what_is_still_itself_is_renamed(place: Path) -> None:
    assert renamed(place, STORAGE.identity(str(place)))
    assert names_in(place.parent) == {"_taken"}


def test_what_is_gone_is_none_and_what_came_later_is_another(place: Path) -> None:
    found = identities(STORAGE, str(place.parent), [place.name, "base_0000002"])
    assert found == {place.name: STORAGE.identity(str(place)), "base_0000002": None}
    late = place.with_name("base_0000002")
    late.mkdir()
    with pytest.raises(Disagreement, match="base_0000002: was created after the decision"):
        renamed(late, found[late.name])
    assert names_in(place.parent) == {place.name, late.name}


def test_another_ones_speed_is_no_failure_and_a_refusal_is(place: Path) -> None:
    class Beaten(LocalStorage):
        def rename(self, source: str, target: str, *, durable: bool = True) -> None:
            raise StorageError(f"cannot rename {source}")

    identity = STORAGE.identity(str(place))
    with pytest.raises(StorageError, match="cannot rename"):
        renamed(place, identity, Beaten())
    shutil.rmtree(place)
    assert not renamed(place, identity, Beaten())


def test_what_was_created_in_the_same_moment_is_put_back(place: Path) -> None:
    class Late(LocalStorage):
        def rename(self, source: str, target: str, *, durable: bool = True) -> None:
            if source == str(place):
                place.rename(place.with_name("moved"))
                place.mkdir()
                (place / "new").touch()
            super().rename(source, target, durable=durable)

    with pytest.raises(Disagreement, match="nothing is taken away there"):
        renamed(place, STORAGE.identity(str(place)), Late())
    assert (names_in(place.parent), names_in(place)) == ({place.name, "moved"}, {"new"})


@pytest.mark.parametrize("calls", [1, 2])
def test_what_became_needed_again_stays_or_is_put_back(place: Path, calls: int) -> None:
    """PROTOCOL 11.8.3"""
    seen: list[set[str]] = []

    def still() -> None:
        seen.append(names_in(place.parent))
        if len(seen) == calls:
            raise LostClaim("another cleaner has ended the entry")

    with pytest.raises(LostClaim):
        rename_same(STORAGE, str(place), f"{place.parent}/_taken", STORAGE.identity(str(place)), still)
    assert seen == [{place.name}, {"_taken"}][:calls]
    assert names_in(place.parent) == {place.name}

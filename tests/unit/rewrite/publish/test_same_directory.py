"""PROTOCOL 11.8: a rename is bound to the directory that was looked at, not to its name."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from compactor.base.errors import Disagreement, LostClaim, StorageError
from compactor.rewrite.publish.same_directory import identities, rename_same
from compactor.storage.local import LocalStorage
from tests.support.watching import names_in

STORAGE = LocalStorage()


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

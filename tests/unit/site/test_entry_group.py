"""Members go through steps together; a member that fails drops out alone, with its error."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from compactor.base.errors import CompactorError, LostClaim
from compactor.compaction.queue_entry import Entity, Entry
from compactor.compaction.states import CompactionType, State
from compactor.site.entry_group import EntryGroup, Member, advance_to
from compactor.site.threads import SideBySide


@dataclass(frozen=True)
class Named:
    entry: Entry

    def counted(self, letters: int) -> Counted:
        return advance_to(Counted, self, letters=letters)


@dataclass(frozen=True)
class Counted(Named):
    letters: int


class Recording(EntryGroup):
    def __init__(self, members: list[Named]) -> None:
        super().__init__(members)
        self.errors: dict[str, str] = {}

    def _end_failed(self, member: Member, error: CompactorError) -> None:
        assert member not in self.live
        self.errors[member.entry.entity.table] = str(error)


@pytest.fixture
def members() -> list[Named]:
    entity = [Entity(database="d", table=name) for name in ("a", "bb", "ccc", "dddd")]
    return [
        Named(Entry(id=number, entity=entity, type=CompactionType.MAJOR, state=State.WORKING))
        for number, entity in enumerate(entity)
    ]


@pytest.fixture(params=[None, 1, 3], ids=["in turn", "one thread", "three threads"])
def threads(request: pytest.FixtureRequest) -> Iterator[SideBySide | None]:
    if request.param is None:
        yield None
        return
    with SideBySide(request.param, "test") as pool:
        yield pool


def test_a_member_that_fails_drops_out_alone(members: list[Named], threads: SideBySide | None) -> None:
    def count(member: Named) -> Counted | None:
        name = member.entry.entity.table
        if name == "bb":
            raise LostClaim("bb is lost")
        if name == "ccc":
            raise ZeroDivisionError("a bug")
        if name == "dddd":
            group.leave(member)
            return None
        return member.counted(len(name))

    group = Recording(members)
    assert group.advance(count, members, threads) == [Counted(entry=members[0].entry, letters=1)]
    assert group.live == [Counted(entry=members[0].entry, letters=1)]
    assert group.errors["bb"] == "bb is lost"
    assert "d.ccc: ZeroDivisionError: a bug" in group.errors["ccc"]
    assert set(group.errors) == {"bb", "ccc"}
    assert group.remaining(members) == members[:1]


def test_each_keeps_the_phase(members: list[Named], threads: SideBySide | None) -> None:
    def check(member: Named) -> int:
        if member.entry.entity.table == "a":
            raise LostClaim("a is lost")
        return 1

    group = Recording(members)
    assert group.each(check, members, threads) == members[1:] == group.live
    assert group.errors == {"a": "a is lost"}


def test_members_with_an_error_fail(members: list[Named]) -> None:
    lost = {2: LostClaim("ccc is lost")}
    group = Recording(members)
    assert group.fail_each(lambda member: lost.get(member.entry.id), members) == [members[0], members[1], members[3]]
    assert group.errors == {"ccc": "ccc is lost"}


def test_a_later_phase_keeps_the_fields_of_the_earlier_one(members: list[Named]) -> None:
    counted = members[0].counted(5)
    assert (type(counted), counted.entry, counted.letters) == (Counted, members[0].entry, 5)
    assert type(advance_to(Named, counted)) is Named

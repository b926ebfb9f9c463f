"""A live Hive 3.1.3 and Compactor on one PostgreSQL with that release's schema."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from compactor.acid.names import Base, Delta
from compactor.compaction.states import State
from tests.support.beside import Beside, left_clean, side_by_side
from tests.support.hive3 import HIVE_3_1
from tests.support.live_hive import placed
from tests.support.stories import KINDS, Story, begun


@pytest.fixture(scope="module")
def both() -> Iterator[Beside]:
    """Both sides, running until this file's tests are done."""
    with placed(HIVE_3_1) as place, side_by_side(*place) as made:
        yield made


@pytest.fixture
def beside(both: Beside) -> Iterator[Beside]:
    with left_clean(both):
        yield both


@pytest.fixture(params=KINDS)
def story(request: pytest.FixtureRequest, beside: Beside) -> Story:
    return begun(beside, request.param)


def test_what_one_compacted_the_other_reads_changes_and_compacts_again(story: Story) -> None:
    """PROTOCOL 1, 2: every reader sees the same rows and ROW__IDs, whoever compacted last, and a point predicate too."""
    beside = story.beside
    story.add(1, 2, 3, 4)
    story.add(5, 6)
    story.ours("minor")
    story.check(2)
    beside.hive_clean()
    story.only(Delta)
    story.change(2)
    story.remove(3)
    story.check(3)
    story.ours("minor")  # it applies deletes, so it is a major here
    story.check(2)
    story.merge(5, 6, 9)
    story.theirs("minor")
    story.check(5)
    beside.hive_clean()
    story.add(7)
    story.ours("major")
    story.check(6)
    story.change(7)
    story.theirs("major")
    story.check(7)
    beside.clean_all()
    story.only(Base)
    story.add(8)
    story.remove(1)
    story.ours("major")
    story.check(8)
    beside.hive_clean()
    story.check(1)
    story.only(Base)
    history = beside.history(story.name, story.partition)
    assert {entry.state for entry in history} == {State.SUCCEEDED}
    assert len(history) == 6

"""Our programs and a live Hive read, append to, change and compact the same tables, of every type, in turn."""

from __future__ import annotations

import pytest

from tests.support.beside import Beside
from tests.support.typed_tables import SHAPES, Other, Shape, TypedTable, make_values, take_turns


@pytest.fixture(scope="session")
def other(both: Beside) -> Other:
    make_values(both)
    return Other(run=lambda statement: both.hive.sql(statement), is_trino=False)


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_hive_and_our_programs_in_turn(beside: Beside, other: Other, shape: Shape) -> None:
    """PROTOCOL 14: each sees what the other wrote, changes it, and compacts it; ROW__IDs are the same for both."""
    table = TypedTable(beside=beside, other=other, shape=shape, name=f"typed_{shape.name}")
    take_turns(table)

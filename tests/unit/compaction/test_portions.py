from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compactor.compaction import portions as module
from compactor.compaction.portions import Portion, split_portions
from compactor.compaction.queue_entry import Entity
from tests.support.candidates import order_entities

NAMES = st.sampled_from("abc")
TABLES = st.dictionaries(st.tuples(NAMES, NAMES), st.sets(st.none() | NAMES, min_size=1), max_size=6)


def entity(table: tuple[str, str], partition: str | None) -> Entity:
    return Entity(database=table[0], table=table[1], partition=partition)


def gone_through(tables: Mapping[tuple[str, str], set[str | None]], after: Entity | None) -> list[Entity]:
    sizes = {table: len(partitions) for table, partitions in tables.items()}
    return [
        entity(table, partition)
        for portion in split_portions(sizes, after)
        for table in portion.tables
        for partition in portion.filter_partitions(tables[table])
    ]


@given(TABLES, st.none() | st.builds(Entity, database=NAMES, table=NAMES, partition=st.none() | NAMES))
def test_all_are_gone_through_once_in_the_order_of_a_pass(
    tables: dict[tuple[str, str], set[str | None]], after: Entity | None
) -> None:
    """PROTOCOL 10."""
    everything = [entity(table, partition) for table, partitions in tables.items() for partition in partitions]
    assert gone_through(tables, after) == list(order_entities(everything, after))


def test_a_portion_has_a_bounded_number_of_tables_and_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ROWS", 10)
    monkeypatch.setattr(module, "TABLES", 3)
    sizes = {("d", name): rows for name, rows in zip("abcdefg", (4, 6, 1, 50, 0, 0, 0), strict=True)}
    found = [[table for _, table in portion.tables] for portion in split_portions(sizes, None)]
    assert found == [["a", "b"], ["c"], ["d"], ["e", "f", "g"]]


def test_the_table_in_which_the_last_pass_ended_comes_first_and_last() -> None:
    after = entity(("d", "b"), "p=2")
    found = list(split_portions(dict.fromkeys([("d", "a"), ("d", "b"), ("d", "c")], 1), after))
    assert found == [
        Portion(tables=(("d", "b"),), after=after),
        Portion(tables=(("d", "c"),)),
        Portion(tables=(("d", "a"),)),
        Portion(tables=(("d", "b"),), until=after),
    ]

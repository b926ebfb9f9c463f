"""The condition that a row is about one table or partition."""

from __future__ import annotations

from sqlalchemy import select

from compactor.compaction.entry import Entity
from compactor.metastore.schema.entity import entity_is
from compactor.metastore.schema.tables import COMPACTION_QUEUE

TABLE = Entity(database="d", table="t")


def sql(entity: Entity, *partitions: str | None) -> str:
    rows = select(COMPACTION_QUEUE.c.CQ_ID).where(entity_is(COMPACTION_QUEUE, "CQ", entity, *partitions))
    return " ".join(
        str(rows.compile(compile_kwargs={"literal_binds": True})).split("WHERE ")[1].replace('"', "").split()
    )


def test_a_table_without_partitions_is_the_row_without_one() -> None:
    wanted = "CQ_PARTITION IS NULL"
    assert wanted in sql(TABLE).replace("COMPACTION_QUEUE.", "")


def test_a_partition_is_its_own_name_or_any_of_those_given() -> None:
    one = Entity(database="d", table="t", partition="p=1")
    assert "CQ_PARTITION IN ('p=1')" in sql(one).replace("COMPACTION_QUEUE.", "")
    assert "CQ_PARTITION IN ('p=1', 'p=%31')" in sql(one, "p=1", "p=%31").replace("COMPACTION_QUEUE.", "")

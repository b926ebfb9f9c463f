"""Each changing statement of docs/sql.md beside a live Hive 4.1, on twin tables: the same rows, the same record of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from compactor.spark_tables.application import process
from compactor.spark_tables.client import Keeper
from compactor.spark_tables.messages import Release
from tests.support.beside import TRANSACTIONAL, Beside
from tests.support.spark_sessions import local_session, pid_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = "(a int, b string, c decimal(10,2), d timestamp, e date)"
#: What both sides run, on {t}. Rows have no partition but in the partitioned table.
PLAIN = (
    "insert into {t} values (1, 'one', 1.5, '2026-11-01 10:00:00.123456789', '2026-11-01'), (2, 'two', -2, null, null)",
    r"insert into table {t} (b, a) values ('it\'s', 3), ('four\n4', 4), (null, 5)",
    "update {t} set b = 'two!', c = -7.25 where a = 2",
    "update {t} set c = null, e = date '2026-11-02' where b is not null and a between 2 and 3",
    "delete from {t} where b is null or c > 1",
    "insert into {t} values (6, 'six', 6, null, null)",
    "insert overwrite table {t} values (7, 'seven', 7.77, null, '0001-01-01'), (8, '', 0, null, null)",
    "insert into {t} values (9, 'nine', null, null, null)",
    "delete from {t}",
    "insert into {t} values (10, 'ten', 10, null, null)",
    "truncate table {t}",
    "insert into {t} values (11, 'eleven', null, null, null)",
)
DYNAMIC_OVERWRITE = (
    "insert overwrite table {t} partition (p) values (6, 'six', 6, null, null, 'x y/z'), (7, '7', 7, null, null, 'q')"
)
PARTITIONED = (
    "insert into {t} partition (p='x y/z') values (1, 'one', 1, null, null), (2, 'two', 2, null, null)",
    "insert into {t} partition (p) values (3, 'three', 3, null, null, 'q'), (4, 'four', 4, null, null, 'x y/z')",
    "update {t} set b = 'changed' where p = 'q'",
    "update {t} set b = 'all', c = 0",
    "delete from {t} where p = 'x y/z' and a = 1",
    "insert overwrite table {t} partition (p='q') values (5, 'five', 5, null, null)",
    DYNAMIC_OVERWRITE,
    "delete from {t} where p <> 'q'",
    "insert into {t} values (8, 'eight', 8, null, null, 'new'), (9, 'nine', 9, null, null, 'q')",
)
KINDS = {
    "plain": (COLUMNS, PLAIN),
    "bucketed": (f"{COLUMNS} clustered by (a) into 2 buckets", PLAIN),
    "partitioned": (f"{COLUMNS} partitioned by (p string)", PARTITIONED),
}
#: Statements whose record in the transaction tables is another one here, and why.
DIFFERENT = {
    "delete from {t}": "Hive makes it a TRUNCATE",
    "truncate table {t}": "Hive records a write ID alone, here it is an INSERT OVERWRITE",
    DYNAMIC_OVERWRITE: "Hive records inserts, here each partition was overwritten, as in an INSERT OVERWRITE that names it",
}
#: What Spark runs on ours, in the words of Hive.
BY_SPARK = (
    "insert into {t} select a + 10, upper(b), c * 2, d, e from {s} where a < 3",
    "update {t} set b = concat(b, '!'), c = cast(c * 2 as decimal(10,2)) where length(b) > 2",
    "delete from {t} where a % 5 = 0",
    "merge into {t} as t using (select a + 1 as a, max(b) as b from {s} group by a) as s on t.a = s.a "
    "when matched and s.b = 'one' then delete "
    "when matched then update set b = concat(t.b, s.b), c = 0.5 "
    "when not matched and s.a > 3 then insert values (s.a, s.b, null, null, date '2026-11-03')",
    "merge into {t} as t using {s} as s on t.a = s.a when matched then update set b = s.b",
    "merge into {t} using {s} as s on {t}.a = s.a + 100 "
    "when not matched then insert values (s.a + 100, s.b, s.c, s.d, s.e)",
    "insert overwrite table {t} select a, b, c, d, e from {s} where a > 1",
)


def twins(beside: Beside, name: str, columns: str) -> None:
    for table in (f"hives_{name}", f"ours_{name}"):
        beside.hive.sql(f"create table {table} {columns} {TRANSACTIONAL}")


def record(beside: Beside, table: str) -> list[tuple[object, ...]]:
    """Says what the transaction tables have of a table: write IDs, and of which partitions they changed rows.

    Hive's INSERT into a partition that it names records the partition's name escaped twice, which no partition has. An
    UPDATE of a table without partitions has one component in Hive, which says update, and two here: delete and insert.
    """
    completed = beside.sql(
        'SELECT "CTC_WRITEID", "CTC_PARTITION", MAX("CTC_UPDATE_DELETE") FROM "COMPLETED_TXN_COMPONENTS" '
        f'WHERE "CTC_TABLE" = \'{table}\' GROUP BY "CTC_WRITEID", "CTC_PARTITION"'
    )
    drawn = beside.sql(f'SELECT "T2W_WRITEID" FROM "TXN_TO_WRITE_ID" WHERE "T2W_TABLE" = \'{table}\'')
    left = beside.sql(f'SELECT "TC_TXNID" FROM "TXN_COMPONENTS" WHERE "TC_TABLE" = \'{table}\'')
    once = [(write_id, (name or "").replace("%25", "%"), changes) for write_id, name, changes in completed]
    return sorted([*once, *drawn, *left], key=repr)


def both_records(beside: Beside, name: str) -> list[Counter[tuple[object, ...]]]:
    return [Counter(record(beside, f"{side}_{name}")) for side in ("hives", "ours")]


@pytest.mark.parametrize("kind", KINDS)
def test_statements_do_what_hives_do(beside: Beside, kind: str) -> None:
    """TABLES 15."""
    columns, statements = KINDS[kind]
    twins(beside, kind, columns)
    known = both_records(beside, kind)
    different = {}
    for statement in statements:
        beside.hive.sql(statement.format(t=f"hives_{kind}"))
        beside.ours("--set", "compactor.mode=clean", "sql", statement.format(t=f"ours_{kind}"))
        hives, ours = (beside.rows(f"{side}_{kind}") for side in ("hives", "ours"))
        assert ours == hives, statement
        before, known = known, both_records(beside, kind)
        hives_record, ours_record = (
            sorted((now - then).elements(), key=repr) for now, then in zip(known, before, strict=True)
        )
        if hives_record != ours_record:
            different[statement] = (hives_record, ours_record)
    assert set(different) == {statement for statement in statements if statement in DIFFERENT}, different
    selected = beside.ours("--set", "compactor.mode=request", "sql", f"select a, b from ours_{kind}")
    assert sorted(f"{row['a']}\t{row['b']}" for row in selected) == sorted(
        beside.hive.sql(f"select a, b from hives_{kind}")
    )


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with local_session(tmp_path_factory.mktemp("spark")) as session:
        yield session


@pytest.fixture
def config(beside: Beside, tmp_path: Path) -> str:
    path = tmp_path / "compactor.toml"
    path.write_text(f'[metastore.default]\nurl = "{beside.url}"\nmode = "clean"\n')
    return str(path)


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize("kind", ["plain", "bucketed"])
def test_statements_of_spark_do_what_hives_do(beside: Beside, spark: SparkSession, config: str, kind: str) -> None:
    """TABLES 13 and 15."""
    from compactor.spark_tables import sql

    columns, (first, second, *_) = KINDS[kind]
    name, source = f"by_spark_{kind}", f"source_{kind}"
    twins(beside, name, columns)
    beside.hive.sql(f"create table {source} {columns} {TRANSACTIONAL}")
    for table in (f"hives_{name}", f"ours_{name}", source):
        for statement in (first.replace(".123456789", ".123456"), second):  # Spark's timestamps have microseconds
            beside.hive.sql(statement.format(t=table))
    for statement in BY_SPARK:
        beside.hive.sql(statement.format(t=f"hives_{name}", s=source))
        sql(spark, statement.format(t=f"ours_{name}", s=source), config=config).collect()
        hives, ours = (beside.rows(f"{side}_{name}") for side in ("hives", "ours"))
        assert ours == hives, statement
    Keeper(process(pid_of(spark))).ask(Release())  # what the sources of statements were read under

"""Each changing statement of docs/sql.md beside a live Hive 4.1, on twin tables: the same rows, the same record of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from compactor.spark_tables.driver_jvm import find_process
from compactor.spark_tables.keeper_client import Keeper
from compactor.spark_tables.keeper_requests import Release
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
SIDES = ("hives", "ours")
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
BY_SPARK_PARTITIONED = (
    "insert into {t} partition (p='x y/z') select a + 10, upper(b), c * 2, d, e from {s} where a < 3",
    "insert into {t} select a + 20, b, c, d, e, concat('of ', a % 2) from {s}",
    "update {t} set b = concat(p, '!') where p like 'of%' and a % 2 = 0",
    "delete from {t} where p in (select concat('of ', max(a) % 2) from {s} where a = 3)",
    "merge into {t} as t using {s} as s on t.a = s.a + 20 and t.p = 'of 0' when matched then update set c = s.a "
    "when not matched then insert values (s.a + 30, s.b, s.c, s.d, s.e, 'merged')",
    "insert overwrite table {t} partition (p) select a, b, c, d, e, 'merged' from {s} where a > 1",
)
KINDS_BY_SPARK = {"plain": BY_SPARK, "bucketed": BY_SPARK, "partitioned": BY_SPARK_PARTITIONED}
SEVERAL = (
    "from {s} insert into {t} select a, b, c, d, e where a < 3 "
    "insert into {u} partition (p='of several') select a * 2, b, null, null, e where b is not null"
)
LOADS = (
    "load data local inpath '{files}' into table {t}",
    "load data local inpath '{files}' into table {t}",
    "load data local inpath '{files}' overwrite into table {t}",
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
    return [Counter(record(beside, f"{side}_{name}")) for side in SIDES]


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
        hives, ours = (beside.rows(f"{side}_{kind}") for side in SIDES)
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
@pytest.mark.parametrize("kind", KINDS_BY_SPARK)
def test_statements_of_spark_do_what_hives_do(beside: Beside, spark: SparkSession, config: str, kind: str) -> None:
    """TABLES 13 and 15."""
    name, source = f"by_spark_{kind}", f"source_{kind}"
    twins(beside, name, KINDS[kind][0])
    make_source(beside, source, *([] if kind == "partitioned" else [f"hives_{name}", f"ours_{name}"]))
    for statement in KINDS_BY_SPARK[kind]:
        beside.hive.sql(statement.format(t=f"hives_{name}", s=source))
        by_spark(spark, statement.format(t=f"ours_{name}", s=source), config)
        hives, ours = (beside.rows(f"{side}_{name}") for side in SIDES)
        assert ours == hives, statement
    let_go(spark)


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_one_query_goes_into_two_tables(beside: Beside, spark: SparkSession, config: str) -> None:
    """TABLES 15: FROM … INSERT … INSERT …."""
    names = ("several_plain", "several_partitioned")
    for name, kind in zip(names, ("plain", "partitioned"), strict=True):
        twins(beside, name, KINDS[kind][0])
    make_source(beside, "source_several")
    known = [both_records(beside, name) for name in names]
    hives, ours = (SEVERAL.format(s="source_several", t=f"{side}_{names[0]}", u=f"{side}_{names[1]}") for side in SIDES)
    beside.hive.sql(hives)
    by_spark(spark, ours, config)
    for name, before in zip(names, known, strict=True):
        hives_rows, ours_rows = (beside.rows(f"{side}_{name}") for side in SIDES)
        assert ours_rows == hives_rows, name
        assert len(hives_rows) > 1
        hives_record, ours_record = (now - then for now, then in zip(both_records(beside, name), before, strict=True))
        assert ours_record == hives_record, name
    let_go(spark)


@pytest.mark.parametrize("kind", ["plain", "partitioned"])
def test_files_are_loaded_as_hive_loads_them(beside: Beside, tmp_path: Path, kind: str) -> None:
    """TABLES 15: LOAD DATA LOCAL; the files are Hive's own."""
    name, where = f"loaded_{kind}", " partition (p='x y/z')" if kind == "partitioned" else ""
    twins(beside, name, KINDS[kind][0])
    make_source(beside, f"source_{name}")
    files = tmp_path / "files"
    beside.hive.sql(f"insert overwrite local directory '{files}' stored as orc select * from source_{name}")
    for statement in LOADS:
        beside.hive.sql(statement.format(files=files, t=f"hives_{name}") + where)
        beside.ours("--set", "compactor.mode=clean", "sql", statement.format(files=files, t=f"ours_{name}") + where)
        beside.scanned(f"hives_{name}")  # which are raw files in a delta
        ours = beside.rows(f"ours_{name}")
        assert ours == sorted(beside.hive.sql(f"select * from hives_{name}")), statement
    assert len(ours) == len(beside.rows(f"source_{name}"))


def test_a_transaction_does_what_its_statements_do_one_by_one(beside: Beside) -> None:
    """TABLES 15: START TRANSACTION, COMMIT and ROLLBACK, which Hive has not."""
    twins(beside, "at_once", COLUMNS)
    first, second, update, *_ = PLAIN
    for statement in (first, second, update, "delete from {t} where a = 4"):
        beside.hive.sql(statement.format(t="hives_at_once"))
    for end, statements in (
        ("rollback", PLAIN[:3]),
        ("commit", (first, second, update, "delete from {t} where a = 4")),
    ):
        text = "; ".join(("start transaction", *(one.format(t="ours_at_once") for one in statements), end))
        beside.ours("--set", "compactor.mode=clean", "sql", text)
    hives, ours = (beside.rows(f"{side}_at_once") for side in SIDES)
    assert ours == hives
    assert len(ours) == 4


def test_what_is_shown_is_what_hive_shows(beside: Beside) -> None:
    """TABLES 15: SHOW and DESCRIBE of the catalog, and SHOW COMPACTIONS of a request made by ALTER TABLE … COMPACT."""
    name = "shown_in_sql"
    columns = "(a int, `b c` map<string,struct<x:decimal(5,2)>>) partitioned by (p string, n int)"
    beside.hive.sql(f"create table {name} {columns} clustered by (a) into 2 buckets {TRANSACTIONAL}")
    for spec in ("p='x y/z', n=1", "p='x y/z', n=02", "p='q', n=1"):
        beside.hive.sql(f"alter table {name} add partition ({spec})")

    def ours(text: str) -> list[tuple[str, ...]]:
        answers = beside.ours("--set", "compactor.mode=request", "sql", text)
        return [tuple("" if value is None else str(value) for value in row.values()) for row in answers]

    def hives(text: str) -> list[tuple[str, ...]]:
        return [tuple(cell.strip() for cell in line.split("\t")) for line in beside.hive.sql(text)]

    for text in (
        f"show partitions {name}",
        f"show partitions {name} partition (n=1)",
        f"show partitions {name} partition (p='x y/z', n=2)",
        "show databases like 'def%'",
        f"show tables like '{name[:-2].replace('w', '_')}%'",
    ):
        assert sorted(ours(text)) == sorted(hives(text)), text
        assert ours(text), text
    described = hives(f"describe {name}")
    wanted = [row[:2] for row in described[: next(i for i, row in enumerate(described) if not row[0])]]
    assert [row[:2] for row in ours(f"describe {name}")] == wanted

    [(text,)] = ours(f"show create table {name}")
    before = definition(beside, name)
    beside.hive.sql(f"drop table {name}")
    beside.hive.sql(text)
    assert definition(beside, name) == before


def test_a_request_in_sql_is_shown_by_hive(beside: Beside) -> None:
    """TABLES 15: ALTER TABLE … COMPACT, SHOW COMPACTIONS and ABORT COMPACTIONS."""
    beside.two_rows("asked_in_sql")
    asked = "compact 'major' pool 'nightly' with overwrite tblproperties ('tblprops.orc.compress'='ZSTD')"
    beside.ours("--set", "compactor.mode=clean", "sql", f"alter table asked_in_sql {asked}")
    [entry] = beside.queue()
    [shown] = beside.ours("--set", "compactor.mode=clean", "sql", "show compactions asked_in_sql pool 'nightly'")
    hives = beside.shown_compaction(entry.id)
    assert (hives["Table"], hives["Type"], hives["State"], hives["Pool name"]) == (
        "asked_in_sql",
        "MAJOR",
        "initiated",
        "nightly",
    )
    assert shown["compactionid"] == entry.id
    beside.ours("--set", "compactor.mode=clean", "sql", f"abort compactions {entry.id}")
    assert beside.queue() == []
    assert beside.shown_compaction(entry.id)["State"] == "aborted"


def make_source(beside: Beside, source: str, *others: str) -> None:
    """Makes a table of five rows, and puts them into ``others``, too."""
    columns, (first, second, *_) = KINDS["plain"]
    beside.hive.sql(f"create table {source} {columns} {TRANSACTIONAL}")
    for table in (source, *others):
        for statement in (first.replace(".123456789", ".123456"), second):  # Spark's timestamps have microseconds
            beside.hive.sql(statement.format(t=table))


def by_spark(spark: SparkSession, text: str, config: str) -> None:
    from compactor.spark_tables import sql

    sql(spark, text, config=config).collect()


def let_go(spark: SparkSession) -> None:
    """Gives back the snapshots that the sources of statements were read under."""
    Keeper(find_process(pid_of(spark))).ask(Release())


def definition(beside: Beside, name: str) -> list[str]:
    """Returns the words with which Hive says how a table is made, without the time at which it was."""
    lines = [line.strip() for line in beside.hive.sql(f"show create table {name}")]
    return [line.rstrip(",)") for line in lines if "transient_lastDdlTime" not in line]

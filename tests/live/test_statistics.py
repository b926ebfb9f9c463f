"""Statistics of our compactions beside what Hive's ANALYZE says of the same rows, and what Hive and Trino do with them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from tests.support.beside import TRANSACTIONAL, Beside, side_by_side
from tests.support.hive4 import HIVE_4_1
from tests.support.live_hive import Place, placed
from tests.support.servers import Server
from tests.support.trino import Trino, TrinoError

#: Statistics of columns hold bytes, which its driver cannot send in the mode that its cleaner needs.
RELEASE = replace(HIVE_4_1, options="")
SCAN, GATHERING = "by scan", "gathering"  #: sessions: without answers from statistics; with statistics of columns

COLUMNS = {
    "a": "int",
    "b": "string",
    "c": "double",
    "d": "decimal(10,2)",
    "e": "boolean",
    "f": "date",
    "g": "timestamp",
    "h": "binary",
    "i": "bigint",
    "j": "varchar(10)",
    "k": "char(5)",
    "l": "float",
    "m": "tinyint",
}
#: Rows in pairs, so that without one of each pair the distinct counts are the same.
ROWS = (
    "1, 'x', 1.5, 12.50, true, '2020-01-01', '2020-01-01 00:00:00.123456', cast('ab' as binary), 10, 'vv', 'cc', 0.1, 1",
    "2, 'ytt', -2.5, 100, false, '2021-01-01', '1960-01-01 00:00:00.5', cast('abc' as binary), 11, 'vvv', 'c', 0.2, 2",
    ", ".join(["null"] * len(COLUMNS)),
)
EXTREME = "-7, 'é', 9.5, -1.00, true, '1999-01-01', '2030-01-01 00:00:00', cast('a' as binary), 99, 'v', 'ccccc', 3, -3"
#: Without a timestamp: Trino refuses Hive's own statistics of one.
FEWER = {name: type for name, type in COLUMNS.items() if name not in "gh"}
FEWER_ROWS = (
    "1, 'x', 1.5, 12.50, true, '2020-01-01', 10, 'vv', 'cc', 0.1, 1",
    "2, 'ytt', -2.5, 100, false, '2021-01-01', 11, 'vvv', 'c', 0.2, 2",
    ", ".join(["null"] * len(FEWER)),
)
FEWER_EXTREME = "-7, 'é', 9.5, -1.00, true, '1999-01-01', 99, 'v', 'ccccc', 3, -3"
#: What Hive answers from statistics, if its column is marked.
ANSWERED = (
    "max(a)",
    "min(a)",
    "min(c)",
    "max(c)",
    "min(f)",
    "max(f)",
    "max(i)",
    "min(l)",
    "max(m)",
    "count(b)",
    "count(e)",
)


@pytest.fixture(scope="module")
def place() -> Iterator[tuple[Place, Server]]:
    with placed(RELEASE) as found:
        yield found


@pytest.fixture(scope="module")
def sides(place: tuple[Place, Server]) -> Iterator[Beside]:
    with side_by_side(*place) as made:
        made.hive.sql("show databases", SCAN)
        made.hive.set("hive.compute.query.using.stats", "false", SCAN)
        made.hive.sql("show databases", GATHERING)
        made.hive.set("hive.stats.column.autogather", "true", GATHERING)
        yield made


@pytest.fixture(scope="module")
def trino(sides: Beside, place: tuple[Place, Server]) -> Iterator[Trino]:
    where, _ = place
    made = Trino(where.folder, where.port)
    try:
        sides.hive.sql(f"create table first (a int) {TRANSACTIONAL}")
        sides.hive.sql("insert into first values (1)")
        made.wait_until_ready("select a from first")
        yield made
    finally:
        made.kill()


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """A table of every type, and the statements on it."""

    sides: Beside
    name: str
    partition: str | None = None  #: as stored
    spec: str = ""  #: the same in a statement
    is_insert_only: bool = False
    columns: Mapping[str, str] = field(default_factory=lambda: COLUMNS)

    def create(self) -> None:
        columns = ", ".join(f"{name} {type}" for name, type in self.columns.items())
        partitioned = "partitioned by (p string)" if self.partition else ""
        made = TRANSACTIONAL
        if self.is_insert_only:
            made = "stored as orc tblproperties ('transactional'='true', 'transactional_properties'='insert_only')"
        self.sides.hive.sql(f"create table {self.name} ({columns}) {partitioned} {made}")

    def insert(self, *rows: str, session: str = GATHERING, overwrite: bool = False) -> None:
        how = "overwrite table" if overwrite else "into"
        values = ", ".join(f"({row})" for row in rows)
        self.sides.hive.sql(f"insert {how} {self.name} {self.spec} values {values}", session)

    def delete(self, where: str) -> None:
        self.sides.hive.sql(f"delete from {self.name} where {where}")

    def compact(self, kind: str = "major") -> None:
        self.sides.sql('DELETE FROM "COMPACTION_QUEUE"')  # what waits for a cleaner, which has no part in this
        [done] = self.sides.compact(self.name, kind, self.partition)
        assert done["fate"] == "compacted", done

    def analyze(self) -> None:
        self.sides.hive.sql(f"analyze table {self.name} {self.spec} compute statistics for columns")

    # --- what Hive says -----------------------------------------------------------------------------------------------

    def described(self) -> dict[str, str]:
        """Returns the parameters that are statistics, and each figure of each column by its name."""
        found: dict[str, str] = {}
        for line in self.sides.hive.sql(f"describe formatted {self.name} {self.spec}"):
            key, _, value = line.strip().partition("\t")
            if key.strip() in ("numFiles", "totalSize", "numRows", "rawDataSize", "COLUMN_STATS_ACCURATE"):
                found[key.strip()] = value.strip()
        for column in self.columns:
            for line in self.sides.hive.sql(f"describe formatted {self.name} {self.spec} {column}"):
                key, _, value = line.partition("\t")
                if key.strip() not in ("COLUMN_STATS_ACCURATE", "comment", "bit_vector", "histogram"):
                    found[f"{column}.{key.strip()}"] = value.strip()
        return found

    def explained(self) -> list[str]:
        """Returns the plan of a query with statistics in it."""
        where = "a > 1 and c < 1" + (f" and p = '{self.partition.partition('=')[2]}'" if self.partition else "")
        return self.sides.hive.sql(f"explain select a, sum(i), max(b) from {self.name} where {where} group by a", SCAN)

    def check(self, *, answered: bool | None = None) -> None:
        """Compares Hive's answers with those of a scan. ``answered`` says whether none of them may need one."""
        every = ", ".join(("count(*)", *ANSWERED))
        [scanned] = self.sides.hive.sql(f"select {every} from {self.name}", SCAN)
        plan = self.sides.hive.sql(f"explain select {every} from {self.name}")
        if answered is not None:
            assert any("TableScan" in line for line in plan) is not answered, self.described()
        assert self.sides.hive.sql(f"select {every} from {self.name}") == [scanned], self.described()
        values = dict(zip(("count(*)", *ANSWERED), scanned.split("\t"), strict=True))
        for query in ("count(*)", "count(e)", "max(a)"):
            assert self.sides.hive.sql(f"select {query} from {self.name}") == [values[query]], (query, self.described())

    def counts(self) -> bool:
        """Returns true if Hive counts the rows without a scan."""
        return not any("TableScan" in line for line in self.sides.hive.sql(f"explain select count(*) from {self.name}"))


KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "partitioned": {"partition": "p=one", "spec": "partition (p='one')"},
    "insert_only": {"is_insert_only": True},
}


@pytest.fixture(params=KINDS)
def story(request: pytest.FixtureRequest, sides: Beside) -> Story:
    made = Story(sides=sides, name=f"{request.param}_{request.function.__name__[5:25]}", **KINDS[request.param])
    made.create()
    return made


def test_what_hive_marked_stays_as_analyze_says_it(story: Story) -> None:
    story.insert(*ROWS)
    story.insert(*ROWS)
    story.analyze()
    before = story.described()
    story.compact()
    ours, plan = story.described(), story.explained()
    story.analyze()
    assert (ours, plan) == (story.described(), story.explained())
    assert ours["numFiles"] == "1"
    assert {**ours, "numFiles": "", "totalSize": ""} == {**before, "numFiles": "", "totalSize": ""}
    story.check(answered=True)


def test_after_deletes_figures_are_what_analyze_says(story: Story) -> None:
    """Only the mark of a column with a distinct count waits for ANALYZE, and in the table of extremes that count, too."""
    if story.is_insert_only:
        return  # nothing is ever deleted there
    story.insert(*ROWS, EXTREME)
    story.insert(*ROWS)
    story.sides.hive.sql(f"update {story.name} set a = a where a = 2")
    story.delete("a = -7")
    story.compact()
    ours = story.described()
    story.analyze()
    theirs = story.described()
    for key in theirs:
        kept = key.endswith((".distinct_count", ".avg_col_len", ".max_col_len")) or key in ("g.min", "g.max")
        if key != "COLUMN_STATS_ACCURATE" and not kept:
            assert ours[key] == theirs[key], key
    assert ours["COLUMN_STATS_ACCURATE"].replace("\\", "") == '{"BASIC_STATS":"true","COLUMN_STATS":{"e":"true"}}'
    assert (ours["numRows"], ours["a.min"], ours["a.max"], ours["a.num_nulls"]) == ("6", "1", "2", "2")


def test_of_equal_rows_everything_is_what_analyze_says(story: Story) -> None:
    """One row of each pair is deleted: then what is left as it was is right, too, and so are the plans."""
    if story.is_insert_only:
        return
    story.insert(*ROWS)
    story.insert(*ROWS)
    story.analyze()
    name = story.name
    story.sides.hive.sql(
        f"delete from {name} where row__id in (select max(row__id) from {name} group by coalesce(a, 0))"
    )
    story.compact()
    ours, plan = story.described(), story.explained()
    story.analyze()
    theirs = story.described()
    assert {**ours, "COLUMN_STATS_ACCURATE": ""} == {**theirs, "COLUMN_STATS_ACCURATE": ""}
    assert plan == story.explained()


def test_queries_are_answered_right_after_further_writes(story: Story) -> None:
    """PROTOCOL 12: whoever writes after us adds to our figures, or takes the marks away; no answer is ever wrong."""
    story.insert(*ROWS, session="main")  # without statistics of columns
    story.insert(*ROWS)
    table = "PARTITION_PARAMS" if story.partition else "TABLE_PARAMS"
    for kind in ("minor", "major"):
        story.sides.sql(f"""DELETE FROM "{table}" WHERE "PARAM_KEY" = 'COLUMN_STATS_ACCURATE'""")
        story.compact(kind)
        assert story.counts() is (kind == "major")
        story.insert(*ROWS)
        if not story.is_insert_only:
            story.delete("a = 1 and i = 10")
            story.check()
            story.sides.hive.sql(f"update {story.name} set i = i + 1 where a = 2")
        story.insert(ROWS[1], session="main")
        story.check()
    story.analyze()
    story.insert(ROWS[1], EXTREME)
    story.compact()
    story.check(answered=True)
    story.insert(*ROWS)
    story.check(answered=True)
    story.insert(ROWS[0], overwrite=True)
    story.check()
    story.insert(ROWS[1])
    story.compact()
    story.check()


def test_trino_shows_them(sides: Beside, trino: Trino) -> None:
    story = Story(sides=sides, name="shown", columns=FEWER)
    story.create()
    story.insert(*FEWER_ROWS, FEWER_EXTREME)
    story.insert(*FEWER_ROWS)
    story.analyze()
    story.delete("a = -7")
    story.compact()
    ours = shown(trino, "shown")
    story.analyze()
    theirs = shown(trino, "shown")
    assert ours[""][4] == 6
    assert ours["a"][5:7] == ["1", "2"]
    assert ours["a"][3] == pytest.approx(1 / 3)
    for column, figures in theirs.items():
        assert ours[column][3:] == figures[3:], column  # share of nulls, rows, minimum, maximum


def shown(trino: Trino, table: str) -> dict[str, list[object]]:
    trino.sql("call system.flush_metadata_cache()")
    return {str(row[0] or ""): row for row in trino.sql(f"show stats for {table}")}


def test_trinos_writes_leave_no_wrong_answer(sides: Beside, trino: Trino) -> None:
    """Trino takes our marks away, as it does with Hive's."""
    story = Story(sides=sides, name="three_write", columns=FEWER)
    story.create()
    story.insert(*FEWER_ROWS, session="main")
    story.insert(*FEWER_ROWS, session="main")
    for statement in (
        "insert into three_write (a, i) values (50, 50)",
        "update three_write set i = 7 where a = 50",
        "delete from three_write where a = 50",
    ):
        sides.sql("""DELETE FROM "TABLE_PARAMS" WHERE "PARAM_KEY" = 'COLUMN_STATS_ACCURATE'""")
        story.compact()
        assert story.counts()
        trino.sql(statement)
        assert not story.counts()
        story.check()


def test_trinos_insert_fails_where_hive_has_statistics_of_columns(sides: Beside, trino: Trino) -> None:
    """No compaction has any part in this; it is why none makes a row of column statistics."""
    story = Story(sides=sides, name="of_columns", columns=FEWER)
    story.create()
    story.insert(*FEWER_ROWS)
    with pytest.raises(TrinoError, match="replace table parameters"):
        trino.sql("insert into of_columns (a, i) values (50, 50)")

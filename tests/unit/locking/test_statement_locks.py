"""The locks of statements: Hive 4's, and the shared and exclusive ones of the manager without transactions."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from compactor.base.errors import NotFound, NotSupported, Refused
from compactor.locking.lock_types import LockType
from compactor.locking.statement_locks import TableFacts, locks, old_locks
from compactor.locking.statement_rules import ALTER, HIVE_3, RULES, AccessKind, Name
from compactor.settings.catalogue import lookup
from compactor.settings.precedence import Layer, Settings
from compactor.settings.setting import SettingUnit
from compactor.statements.parser import parse


@dataclass(frozen=True, slots=True, kw_only=True)
class _Partition:
    name: str
    values: tuple[str, ...]


def _partitioned(name: str, *, transactional: bool) -> TableFacts:
    """Partitions p=1..2 / q=a..b."""
    partitions = tuple(_Partition(name=f"p={p}/q={q}", values=(p, q)) for p in "12" for q in "ab")
    return TableFacts(
        database="default", table=name, transactional=transactional, keys=("p", "q"), partitions=partitions
    )


TABLES = {
    facts.table: facts
    for facts in (
        TableFacts(database="default", table="acid", transactional=True),
        TableFacts(database="default", table="other", transactional=True),
        TableFacts(database="default", table="soft", transactional=True, soft_deletes=True),
        TableFacts(database="default", table="plain"),
        TableFacts(database="default", table="ext", external=True),
        TableFacts(database="default", table="v", view=True),
        _partitioned("part", transactional=True),
        _partitioned("plainpart", transactional=False),
    )
}


def look(name: Name) -> TableFacts:
    if name.table not in TABLES:
        raise NotFound(f"table {name}: there is none")
    return TABLES[name.table]


def settings(**values: str) -> Settings:
    by_key = {key.replace("__", "."): value for key, value in values.items()}
    return Settings.of([Layer(name="flag", values=by_key)])


def lock_texts(text: str, **values: str) -> list[str]:
    """Returns the locks as ``object:code``, the database without its name."""
    return [_short(p.request) for p in locks(parse(text), look, settings(**values))]


def _short(request: object) -> str:
    names, _, kind = str(request).partition(" -> ")
    return f"{names.removeprefix('default').removeprefix('.') or 'db'}:{LockType[kind].value}"


STRICT, LOOSE = ({"hive__txn__xlock__write": value} for value in ("true", "false"))
LOCKLESS = {"hive__acid__lockless__reads__enabled": "true"}

#: Statement, settings, locks: Hive's table (AcidUtils.makeLockComponents) case by case.
CASES: tuple[tuple[str, dict[str, str], list[str]], ...] = (
    ("select * from acid", {}, ["acid:r"]),
    ("select * from acid, plain", {}, ["acid:r", "plain:r"]),
    ("select * from acid", {"hive__txn__read__locks": "false"}, []),
    ("select * from acid, plain", {"hive__txn__nonacid__read__locks": "false"}, ["acid:r"]),
    ("select * from acid, plain", LOCKLESS, ["plain:r"]),
    ("select * from ext", {}, []),
    ("select * from ext", {"hive__txn__ext__locking__enabled": "true"}, ["ext:r"]),
    ("select * from part", {}, ["part.p=1/q=a:r", "part.p=1/q=b:r", "part.p=2/q=a:r", "part.p=2/q=b:r"]),
    ("select * from part where p = 1", {}, ["part.p=1/q=a:r", "part.p=1/q=b:r"]),
    ("select * from part where p = 1 and q = 'b' and x > 2", {}, ["part.p=1/q=b:r"]),
    ("select * from part", {"hive__locks__max__partitions": "4"}, ["part:r"]),
    ("select * from part where p = 1", {"hive__locks__max__partitions": "3"}, ["part.p=1/q=a:r", "part.p=1/q=b:r"]),
    ("select * from part where p = 9", {}, ["part:r"]),
    ("insert into acid values (1)", {}, ["acid:r"]),
    ("insert into acid values (1)", LOOSE, ["acid:w"]),
    ("insert into acid values (1)", LOCKLESS, ["acid:w"]),
    ("insert into plain values (1)", {}, ["plain:e"]),
    ("insert into plain values (1)", {"hive__txn__strict__locking__mode": "false"}, ["plain:r"]),
    ("insert into ext values (1)", {}, []),
    ("insert into ext values (1)", {"hive__txn__ext__locking__enabled": "true"}, ["ext:e"]),
    ("insert into part partition (p=1, q='a') select 1", {}, ["part.p=1/q=a:r"]),
    ("insert into part partition (p=7, q='new') select 1", {}, ["part.p=7/q=new:r"]),
    ("insert into part partition (p=1, q) select 1, 'a'", {}, ["part:r"]),
    ("insert into part select 1, 1, 'a'", LOOSE, ["part:w"]),
    (
        "from plain insert into acid select * insert overwrite table other select *",
        {},
        ["acid:r", "other:e", "plain:r"],
    ),
    ("with q as (select * from other) insert into acid select * from q", {}, ["acid:r", "other:r"]),
    ("insert overwrite table acid select * from other", {}, ["acid:e", "other:r"]),
    ("insert overwrite table acid select * from other", {"hive__txn__xlock__iow": "false"}, ["acid:x", "other:r"]),
    ("insert overwrite table acid select * from other", LOOSE, ["acid:x", "other:r"]),
    ("insert overwrite table acid select 1", LOCKLESS, ["acid:x"]),
    ("insert overwrite table plain select 1", {"hive__txn__xlock__iow": "false"}, ["plain:e"]),
    ("insert overwrite table part partition (p=1, q='a') select 1", {}, ["part.p=1/q=a:e"]),
    ("update acid set a = 1 where b in (select b from plain)", {}, ["acid:x", "plain:r"]),
    ("update acid set a = 1", LOOSE, ["acid:w"]),
    ("update part set a = 1 where p = 1", LOOSE, ["part:w", "part.p=1/q=a:w", "part.p=1/q=b:w"]),
    ("delete from acid where a = (select max(a) from acid)", {}, ["acid:x"]),
    ("delete from part where p = 1", LOOSE, ["part.p=1/q=a:w", "part.p=1/q=b:w"]),
    (
        "merge into acid t using other s on t.a = s.a when matched then update set b = 1 "
        "when not matched then insert values (1)",
        {},
        ["acid:x", "other:r"],
    ),
    ("merge into acid t using other s on t.a = s.a when not matched then insert values (1)", {}, ["acid:r", "other:r"]),
    (
        "merge into acid t using other s on t.a = s.a when not matched then insert values (1)",
        LOOSE,
        ["acid:w", "other:r"],
    ),
    (
        "merge into acid t using other s on t.a = s.a when not matched then insert values (1)",
        {"hive__txn__xlock__mergeinsert": "true"},
        ["acid:x", "other:r"],
    ),
    (
        "merge into acid t using other s on t.a = s.a when not matched then insert values (1)",
        {"hive__txn__xlock__mergeinsert": "true", **LOOSE},
        ["acid:w", "other:r"],
    ),
    (
        "merge into acid using (select * from other where a > 1) s on acid.a = s.a when matched then delete",
        {},
        ["acid:x", "other:r"],
    ),
    (
        "merge into part t using other s on t.p = s.p when matched then update set b = 1 "
        "when not matched then insert values (1, 1, 'a')",
        {},
        ["other:r", "part:r", "part.p=1/q=a:x", "part.p=1/q=b:x", "part.p=2/q=a:x", "part.p=2/q=b:x"],
    ),
    ("load data inpath '/x' into table acid", {}, ["acid:r"]),
    ("load data local inpath '/x' overwrite into table part partition (p=1, q='a')", {}, ["part.p=1/q=a:e"]),
    ("truncate table acid", {}, ["acid:x"]),
    ("truncate table acid", {"hive__acid__truncate__usebase": "false"}, ["acid:e"]),
    ("truncate table plain", {}, ["plain:e"]),
    ("truncate table part partition (p=1)", {}, ["part.p=1/q=a:x", "part.p=1/q=b:x"]),
    ("create database d", {}, []),
    ("create table n (a int)", {}, ["db:r"]),
    ("create table n as select * from acid", {}, ["db:r", "acid:r", "n:e"]),
    ("create table n as select 1", {"hive__txn__xlock__ctas": "false"}, ["db:r"]),
    ("create table n stored as orc tblproperties ('transactional'='true') as select 1", {}, ["db:r", "n:x"]),
    ("create transactional table n as select 1", {}, ["db:r", "n:x"]),
    ("create view w as select * from acid", {}, ["db:r", "acid:r"]),
    ("create temporary table n (a int)", {}, []),
    ("drop table acid", {}, ["db:r", "acid:e"]),
    ("drop table if exists acid", LOCKLESS, ["db:r", "acid:x"]),
    ("drop table acid", {"hive__acid__createtable__softdelete": "true"}, ["db:r", "acid:e"]),
    ("drop table soft", {"hive__acid__createtable__softdelete": "true"}, ["db:r", "soft:x"]),
    ("drop table ext", {}, ["db:r"]),
    ("drop view v", {}, []),
    ("drop database if exists default cascade", {}, ["db:e"]),
    ("drop database default", LOCKLESS, ["db:x"]),
    ("drop connector c", {}, []),
    ("show tables", {}, ["db:r"]),
    ("show tables in default like 't*'", {}, ["db:r"]),
    ("analyze table acid compute statistics", {}, ["acid:r"]),
    ("msck repair table part", {}, ["part:e"]),
    ("msck repair table part", LOCKLESS, ["part:x"]),
    ("alter table acid add columns (b int)", {}, ["acid:e"]),
    ("alter table acid add columns (b int)", LOCKLESS, ["acid:x"]),
    ("alter table plain add columns (b int)", LOCKLESS, ["plain:e"]),
    ("alter table acid replace columns (b int)", {}, ["acid:e"]),
    ("alter table acid change column a b int", {}, ["acid:e"]),
    ("alter table acid rename to acid2", {}, ["db:r", "acid:e"]),
    ("alter table acid set tblproperties ('a'='b')", {}, ["acid:r"]),
    ("alter table plain set tblproperties ('transactional'='true')", {}, ["plain:e"]),
    ("alter table acid unset tblproperties ('a')", {}, ["acid:e"]),
    ("alter table acid set location '/x'", LOCKLESS, ["acid:e"]),
    ("alter table acid concatenate", {}, ["acid:e"]),
    ("alter table part add partition (p=3, q='c')", {}, ["part:r"]),
    ("alter table part add if not exists partition (p=3, q='c')", LOCKLESS, ["part:x"]),
    ("alter table part drop partition (p=1)", {}, ["part.p=1/q=a:e", "part.p=1/q=b:e"]),
    ("alter table part drop if exists partition (p > 1, q='a')", {}, ["part.p=1/q=a:e", "part.p=2/q=a:e"]),
    (
        "alter table part drop partition (p=1, q='a')",
        {"hive__acid__droppartition__usebase": "true"},
        ["part.p=1/q=a:x"],
    ),
    ("alter table part partition (p=1, q='a') rename to partition (p=1, q='z')", {}, ["part.p=1/q=a:e"]),
    (
        "alter table part partition (p=1, q='a') rename to partition (p=1, q='z')",
        {"hive__acid__renamepartition__makecopy": "true"},
        ["part.p=1/q=a:x"],
    ),
    ("alter table part partition (p=1, q='a') concatenate", {}, ["part.p=1/q=a:e"]),
    ("alter table acid compact 'major'", {}, []),
    ("alter table part touch partition (p=1, q='a')", {}, []),
    ("alter view v as select 1", {}, []),
    ("explain select * from acid", {}, []),
    ("update acid set a = 'x''y' where b = 1", {}, ["acid:x"]),
    ("show locks acid", {}, []),
    ("select * from acid", {"hive__support__concurrency": "false"}, []),
    ("select * from acid", {"hive__support__concurrency": "true"}, ["acid:r"]),
)


@pytest.mark.parametrize(("text", "values", "expected"), CASES, ids=[f"{c[0][:50]}-{len(c[1])}" for c in CASES])
def test_locks_of_hive_4(text: str, values: dict[str, str], expected: list[str]) -> None:
    """Writers are exclusive unless the case says otherwise."""
    assert lock_texts(text, **STRICT | values) == expected


#: What a live Hive 4.1 put into HIVE_LOCKS with its own defaults, statement by statement.
SEEN = (
    ("create table n (a int) partitioned by (p string)", ["db:r"]),
    ("insert into part partition (p=1, q='a') values (1)", ["part.p=1/q=a:w"]),
    ("insert into part partition (p, q) select 1, 1, 'a'", ["part:w"]),
    ("select * from part where p = 1 and q = 'a'", ["part.p=1/q=a:r"]),
    ("update part set a = 1 where p = 1", ["part:w", "part.p=1/q=a:w", "part.p=1/q=b:w"]),
    ("delete from part where p = 1", ["part.p=1/q=a:w", "part.p=1/q=b:w"]),
    (
        "merge into acid t using (select 1 as a) s on t.a = s.a when matched then update set b = 2 "
        "when not matched then insert values (1)",
        ["acid:w"],
    ),
    ("insert overwrite table acid values (1)", ["acid:x"]),
    ("truncate table acid", ["acid:x"]),
    ("alter table acid add columns (c int)", ["acid:e"]),
    ("alter table part drop partition (p=1, q='a')", ["part.p=1/q=a:e"]),
    ("alter table acid rename to acid2", ["db:r", "acid:e"]),
    ("drop table acid", ["db:r", "acid:e"]),
    ("alter table acid compact 'major'", []),
)


#: The same of Hive 3.1, whose semi-shared lock is written W. Its sessions know none of Hive 4's settings of locks but one.
CASES_OF_HIVE_3: tuple[tuple[str, dict[str, str], list[str]], ...] = (
    ("select * from acid, plain", {"hive__txn__read__locks": "false"}, ["acid:r", "plain:r"]),
    ("select * from ext", {"hive__txn__ext__locking__enabled": "true"}, []),
    ("insert into acid values (1)", LOOSE, ["acid:r"]),
    ("insert into plain values (1)", {}, ["plain:e"]),
    ("insert into plain values (1)", {"hive__txn__strict__locking__mode": "false"}, ["plain:r"]),
    ("insert overwrite table acid select * from other", LOOSE, ["acid:e", "other:r"]),
    ("insert overwrite table acid select * from other", {"hive__txn__xlock__iow": "false"}, ["acid:w", "other:r"]),
    ("insert overwrite table plain select 1", {"hive__txn__xlock__iow": "false"}, ["plain:e"]),
    ("update acid set a = 1", STRICT, ["acid:w"]),
    ("delete from part where p = 1", STRICT, ["part.p=1/q=a:w", "part.p=1/q=b:w"]),
    (
        "merge into acid t using other s on t.a = s.a when not matched then insert values (1)",
        {"hive__txn__xlock__mergeinsert": "true"},
        ["acid:r", "other:r"],
    ),
    ("truncate table acid", {}, ["acid:e"]),
    ("create table n as select * from acid", {}, ["db:r", "acid:r"]),
    ("drop table acid", LOCKLESS, ["db:r", "acid:e"]),
    ("drop database default", LOCKLESS, ["db:e"]),
)


@pytest.mark.parametrize(
    ("text", "values", "expected"), CASES_OF_HIVE_3, ids=[f"{c[0][:50]}-{len(c[1])}" for c in CASES_OF_HIVE_3]
)
def test_locks_of_hive_3(text: str, values: dict[str, str], expected: list[str]) -> None:
    planned_locks = locks(parse(text), look, settings(**values), hive=HIVE_3)
    assert [_short(planned.request) for planned in planned_locks] == expected


@pytest.mark.parametrize(("text", "expected"), SEEN, ids=[text for text, _ in SEEN])
def test_locks_of_a_live_hive(text: str, expected: list[str]) -> None:
    assert lock_texts(text) == expected


#: The table of the manager without transactions, as its documentation gives it (S and X; the database is always S).
OLD = (
    ("select * from plainpart where p=1 and q='a'", ["S plainpart", "S plainpart.p=1", "S plainpart.p=1/q=a"]),
    (
        "insert overwrite table plainpart partition (p=2) select * from other",
        ["S other", "S plainpart", "X plainpart.p=2"],
    ),
    (
        "insert into plainpart partition (p=1, q='a') select * from plain",
        ["S plain", "S plainpart", "S plainpart.p=1", "X plainpart.p=1/q=a"],
    ),
    ("insert into plainpart select * from plain", ["S plain", "X plainpart"]),
    ("insert into plain values (1)", ["X plain"]),
    ("alter table plain rename to plain2", ["X plain"]),
    ("alter table plain add columns (a int)", ["X plain"]),
    ("alter table plain replace columns (a int)", ["X plain"]),
    ("alter table plain change a b int", ["X plain"]),
    ("alter table plain concatenate", ["X plain"]),
    ("alter table plainpart add partition (p=7)", ["S plainpart", "X plainpart.p=7"]),
    ("alter table plainpart drop partition (p=1)", ["S plainpart", "X plainpart.p=1"]),
    ("alter table plainpart touch partition (p=1)", ["S plainpart", "X plainpart.p=1"]),
    ("alter table plain set serdeproperties ('a'='b')", ["S plain"]),
    ("alter table plain set serde 'x'", ["S plain"]),
    ("alter table plain set fileformat orc", ["S plain"]),
    ("alter table plain set tblproperties ('a'='b')", ["X plain"]),
    ("alter table plainpart partition (p=1) concatenate", ["S plainpart", "X plainpart.p=1"]),
    ("drop table plain", ["X plain"]),
    ("alter table plain compact 'major'", []),
)


@pytest.mark.parametrize(("text", "expected"), OLD, ids=[text for text, _ in OLD])
def test_locks_without_transactions(text: str, expected: list[str]) -> None:
    """Every parent of a locked object is locked shared, so that it cannot be dropped meanwhile."""
    planned_locks = old_locks(parse(text), look)
    below = [f"{'X' if r.type is LockType.EXCLUSIVE else 'S'} {r.table}" + (f".{r.partition}" if r.partition else "")
             for r in planned_locks if r.table is not None]  # fmt: skip
    assert below == expected
    assert [r.type for r in planned_locks if r.table is None] == ([LockType.SHARED_READ] if expected else [])
    assert list(planned_locks) == sorted(planned_locks)


def test_old_create_and_drop_of_databases() -> None:
    assert [str(r) for r in old_locks(parse("drop database default"), look)] == ["default -> EXCLUSIVE"]
    assert [str(r) for r in old_locks(parse("create table n as select 1"), look)] == [
        "default -> SHARED_READ",
        "default.n -> EXCLUSIVE",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "it is empty"),
        ("grant select on table t to user x", "'GRANT SELECT ON' at line 1, character 1 is not on the list"),
        ("alter table acid frobnicate", "before 'frobnicate' at line 1, character 18"),
        ("alter materialized view m rebuild", "explain that"),
        ("insert overwrite directory '/x' select 1", "writes no table"),
        ("insert acid values (1)", "INTO is expected"),
        ("merge into acid using other on 1 = 1", "WHEN … THEN"),
        ("merge into acid", "USING is expected at the end"),
        ("load data inpath '/x' acid", "INTO TABLE is expected"),
        ("update plain set a = 1", "only updated, deleted and merged in transactional tables"),
        ("select * from nowhere", "nowhere: there is none"),
        ("insert into acid partition (p=1) select 1", "no partition key 'p'|not partitioned"),
        ("insert into part partition (z=1) select 1", "no partition key 'z'"),
    ],
)
def test_a_refusal_names_the_statement(text: str, message: str) -> None:
    with pytest.raises(Refused, match=message):
        locks(parse(text), look, settings())


def test_reading_a_view_is_not_supported() -> None:
    with pytest.raises(NotSupported, match=r"default\.v is a view"):
        locks(parse("select * from v"), look, settings())


def test_a_cascade_with_lockless_reads_is_refused() -> None:
    """Hive checks how each table was created."""
    with pytest.raises(NotSupported, match="CASCADE"):
        locks(parse("drop database default cascade"), look, settings(**LOCKLESS))


def test_hives_default_of_no_concurrency_is_ignored() -> None:
    """Hive ships hive.support.concurrency=false, with which no ACID table can be used at all."""
    assert locks(parse("select * from acid"), look, Settings.of([]))


@pytest.mark.parametrize("kind", AccessKind)
@pytest.mark.parametrize("transactional", [True, False])
def test_some_rule_always_applies(kind: AccessKind, transactional: bool) -> None:
    if kind is AccessKind.MERGE_INSERT and not transactional:
        return  # refused
    last = [rule for rule in RULES if rule.kind is kind and rule.transactional in (None, transactional)][-1]
    assert last.when == ()


def test_rules_depend_on_boolean_settings() -> None:
    keys = {key for rule in RULES for key, _ in rule.when} | {c.softened_by for c in ALTER if c.softened_by}
    assert {lookup(key).unit for key in keys} == {SettingUnit.BOOLEAN}


def test_every_form_of_alter_table_is_listed_once() -> None:
    assert len({command.words for command in ALTER}) == len(ALTER)

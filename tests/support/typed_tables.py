"""Tables of all types, which a live Hive or Trino and our programs change in turn, and the rows that they must hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import pyarrow as pa

from compactor.tables import Store, Table
from tests.support.beside import Beside
from tests.support.expected import difference
from tests.support.stories import HOSTILE
from tests.support.trino import Trino
from tests.support.trino_rows import trino_lines
from tests.support.type_values import HIGHEST, KINDS, LOWEST, NULL, ORDINARY, SCALARS, Kind, arrow_rows

Rows: TypeAlias = Mapping[int, int]  #: numbers of values by ``id``
VALUES = (ORDINARY, LOWEST, HIGHEST, NULL)
VALUES_TABLE = "typed_values"
BY_BATCH, BY_ROW = "by batch", "by row"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A form of table."""

    name: str
    clause: str = ""  #: of CREATE TABLE, behind the columns
    version: int = 2  #: of bucketing
    bucketing: frozenset[str] = frozenset()  #: columns, which no UPDATE may set
    is_partitioned: bool = False

    def partition(self, key: int) -> tuple[str, ...]:
        """Returns the texts of the partition columns in the row ``key``."""
        return ((HOSTILE, "1") if key % 2 else ("x", "2")) if self.is_partitioned else ()


def _hashed(version: int, names: Sequence[str]) -> Shape:
    """Returns a shape that is bucketed by several columns."""
    clause = f"clustered by ({', '.join(names)}) into 3 buckets"
    return Shape(name=f"hashed_{version}", clause=clause, version=version, bucketing=frozenset(names))


_HASHED = [kind.name for kind in SCALARS if kind.hive != "binary"]
#: Types by which Trino writes into buckets.
_TRINO_HASHED = ["c_boolean", "c_tinyint", "c_smallint", "c_int", "c_bigint", "c_float", "c_double"]
_TRINO_HASHED += ["c_string", "c_varchar", "c_date"]
_PARTITIONS = "partitioned by (p string, q int)"
_ANY = (
    Shape(name="plain"),
    Shape(name="bucketed_1", clause="clustered by (id) into 3 buckets", version=1, bucketing=frozenset({"id"})),
    Shape(name="bucketed_2", clause="clustered by (id) into 3 buckets", bucketing=frozenset({"id"})),
    Shape(name="partitioned", clause=_PARTITIONS, is_partitioned=True),
    Shape(
        name="both",
        clause=f"{_PARTITIONS} clustered by (c_string) into 2 buckets",
        bucketing=frozenset({"c_string"}),
        is_partitioned=True,
    ),
)
SHAPES = (*_ANY, *(_hashed(version, _HASHED) for version in (1, 2)))
TRINO_SHAPES = (*_ANY, *(_hashed(version, _TRINO_HASHED) for version in (1, 2)))


def make_values(beside: Beside) -> None:
    """Makes the table of which Hive takes the values of its rows; NULLs of nested types have no spelling of their own."""
    if VALUES_TABLE in beside.hive.sql("show tables"):
        return
    session = "values"  # folding constants and CBO lose the types within nested ones
    beside.hive.set("hive.optimize.constant.propagation", "false", session)
    beside.hive.set("hive.cbo.enable", "false", session)
    columns = ", ".join(f"{kind.name} {kind.hive}" for kind in KINDS)
    beside.hive.sql(f"create table {VALUES_TABLE} (n int, {columns}) stored as orc")
    for number in VALUES[:-1]:
        cells = ", ".join(kind.values[number].hive for kind in KINDS)
        beside.hive.sql(f"insert into {VALUES_TABLE} select {number}, {cells}", session)
    beside.hive.sql(f"insert into {VALUES_TABLE} (n) values ({NULL})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Other:
    """The live system on the other side, and its spelling of values."""

    run: Callable[[str], object]
    is_trino: bool

    def value(self, kind: Kind, number: int) -> str:
        spelled = kind.values[number]
        return spelled.trino if self.is_trino else spelled.hive


@dataclass(slots=True, kw_only=True)
class TypedTable:
    """A table with the columns ``id`` and one for each type; ``rows`` has the texts of each row as Hive shows them."""

    beside: Beside
    other: Other
    shape: Shape
    name: str
    trino: Trino | None = None
    texts: list[list[str]] = field(default_factory=list)  #: by number of value: of all columns but ``id``
    rows: dict[int, list[str]] = field(default_factory=dict)

    # --- statements of the other side --------------------------------------------------------------------------------

    def create(self) -> None:
        columns = ", ".join(["id int", *(f"{kind.name} {kind.hive}" for kind in KINDS)])
        properties = f"'transactional'='true', 'bucketing_version'='{self.shape.version}'"
        self.beside.hive.sql(
            f"create table {self.name} ({columns}) {self.shape.clause} stored as orc tblproperties ({properties})"
        )

    def insert(self, rows: Rows) -> None:
        """The other side inserts rows."""
        self.other.run(f"insert into {self.name} {self._selected(rows)}")
        self._put(rows)

    def change(self, key: int, number: int) -> None:
        """The other side sets all columns; Hive none of a nested type, whose literals lose their types."""
        kinds = [kind for kind in self._free if self.other.is_trino or not kind.is_nested]
        changes = ", ".join(f"{kind.name} = {self.other.value(kind, number)}" for kind in kinds)
        self.other.run(f"update {self.name} set {changes} where id = {key}")
        self._changed(key, number, kinds)

    def remove(self, *keys: int) -> None:
        self.other.run(f"delete from {self.name} where id in ({', '.join(map(str, keys))})")
        for key in keys:
            del self.rows[key]

    def merge(self, *, changed: int, number: int, removed: int, added: int) -> None:
        """The other side's one statement that updates, deletes and inserts."""
        source = self._selected({changed: number, removed: number, added: number})
        changes = ", ".join(f"{kind.name} = s.{kind.name}" for kind in self._free)
        values = ", ".join(f"s.{name}" for name in ["id", *(kind.name for kind in KINDS), *self._keys])
        self.other.run(
            f"merge into {self.name} t using ({source}) s on t.id = s.id "
            f"when matched and s.id = {removed} then delete "
            f"when matched then update set {changes} "
            f"when not matched then insert values ({values})"
        )
        self._changed(changed, number, self._free)
        del self.rows[removed]
        self._put({added: number})

    # --- statements of our programs ----------------------------------------------------------------------------------

    @property
    def ours(self) -> Table:
        return Store(self.beside.site).load_table(f"default.{self.name}")

    def append(self, rows: Rows) -> None:
        """Our program appends rows, as statements of one transaction."""
        with Store(self.beside.site).transaction() as txn:
            table = txn.load_table(f"default.{self.name}")
            for part in self._arrow(rows):
                assert table.append(part) == part.num_rows
        self._put(rows)

    def update(self, key: int, number: int) -> None:
        """Our program sets all columns that may be set; those of nested types become NULL."""
        given = {kind.name: kind.values[number].ours or "NULL" for kind in self._free}
        assert self.ours.update(given, where=f"id = {key}") == 1
        self._changed(key, number, [kind for kind in self._free if not kind.is_nested])
        self._changed(key, -1, [kind for kind in self._free if kind.is_nested])

    def delete(self, *keys: int) -> None:
        assert self.ours.delete(f"id in ({', '.join(map(str, keys))})") == len(keys)
        for key in keys:
            del self.rows[key]

    def upsert(self, rows: Rows) -> None:
        for part in self._arrow(rows):
            ids = part.column("id").to_pylist()
            there = sum(id in self.rows for id in ids)
            done = self.ours.upsert(part, ["id"])
            assert (done.updated, done.inserted) == (there, len(ids) - there)
        self._put(rows)

    def overwrite(self, rows: Rows) -> None:
        """Our program puts rows, all ordinary ones, in place of what their partitions hold."""
        [part] = self._arrow(rows)
        assert self.ours.overwrite(part) == part.num_rows
        gone = {self.shape.partition(key) for key in rows}
        self.rows = {key: row for key, row in self.rows.items() if self.shape.partition(key) not in gone}
        self._put(rows)

    # --- compactions -------------------------------------------------------------------------------------------------

    def compact(self, kind: str) -> None:
        """Ours, of every partition that has something to compact."""
        done = self.beside.compact(self.name, kind)
        assert {one["fate"] for one in done} == {"compacted"}, done

    def hive_compact(self, kind: str) -> None:
        for spec in self._specs():
            self.beside.hive_request(self.name, kind, spec)
        self.beside.hive_work()

    # --- what everybody sees -----------------------------------------------------------------------------------------

    def begin(self) -> None:
        """The other side makes rows 0 to 3; as Hive shows their values, so it must show those of ours."""
        self.create()
        self.insert({number: number for number in VALUES})
        lines = [line.split("\t") for line in self.beside.hive.sql(f"select * from {self.name}", BY_ROW)]
        found = {int(cells[0]): cells[1 : len(KINDS) + 1] for cells in lines}
        self.texts = [found[number] for number in VALUES]
        self.rows = dict(found)

    def check(self, *sessions: str) -> None:
        """All readers show exactly the rows, and the same ROW__IDs; by Hive in each of ``sessions``."""
        wanted = sorted("\t".join([str(key), *row, *self.shape.partition(key)]) for key, row in self.rows.items())
        shown = [
            sorted(self.beside.hive.sql(f"select row__id, * from {self.name}", one)) for one in sessions or (BY_ROW,)
        ]
        for session, lines in zip(sessions, shown, strict=False):
            assert difference(wanted, [line.partition("\t")[2] for line in lines]) == "", f"{self.name}: Hive {session}"
            assert lines == shown[0], session
        self.beside.scanned(self.name)
        if self.trino is not None:
            found = self.beside.site.metastore.catalog.table("default", self.name)
            assert difference(wanted, trino_lines(self.trino, found)) == "", f"{self.name}: Trino"
        assert self.ours.scan().count() == len(self.rows)

    def counts(self) -> None:
        """Hive's and the other side's counts, which may come from statistics."""
        for statement in (f"select count(*) from {self.name}", f"select count(*), min(id), max(id) from {self.name}"):
            line = self.beside.hive.sql(statement)[0].split("\t")
            assert line == [str(len(self.rows)), str(min(self.rows)), str(max(self.rows))][: len(line)], statement

    def joins(self) -> None:
        """Joins on each bucketing column, by batch and row by row."""
        for name in sorted(self.shape.bucketing or {"id"}):
            place = ["id", *(kind.name for kind in KINDS)].index(name)
            values = Counter(([str(key), *row])[place] for key, row in self.rows.items())
            wanted = sum(number**2 for value, number in values.items() if value != "NULL")
            join = f"select count(*) from {self.name} a join {self.name} b on a.{name} = b.{name}"
            for session in (BY_BATCH, BY_ROW):
                assert self.beside.hive.sql(join, session) == [str(wanted)], (name, session)
            if self.trino is not None:
                assert self.trino.sql(join) == [[wanted]], name

    def predicates(self) -> None:
        """A comparison with each value of each type, but binary, finds the rows that Hive finds."""
        for kind in (kind for kind in SCALARS if kind.hive != "binary"):
            for value in kind.values[:-1]:
                assert value.ours is not None
                text = f"{kind.name} = {value.ours}"
                found = self.ours.scan(text, selected_fields=["id"], timestamps="parts").to_arrow()
                hives = self.beside.hive.sql(f"select id from {self.name} where {kind.name} = {value.hive}")
                assert sorted(found.column("id").to_pylist()) == sorted(map(int, hives)), (kind.name, value.ours)

    # --- helpers -----------------------------------------------------------------------------------------------------

    @property
    def _keys(self) -> list[str]:
        return ["p", "q"] if self.shape.is_partitioned else []

    @property
    def _free(self) -> list[Kind]:
        return [kind for kind in KINDS if kind.name not in self.shape.bucketing]

    def _specs(self) -> Sequence[str | None]:
        parts = sorted({self.shape.partition(key) for key in self.rows})
        return [f"p='{part[0]}', q={part[1]}" if part else None for part in parts]

    def _selected(self, keys: Rows) -> str:
        return f"select * from ({' union all '.join(self._row(key, number) for key, number in keys.items())}) s"

    def _row(self, key: int, number: int) -> str:
        cells, source = [kind.name for kind in KINDS], f" from {VALUES_TABLE} where n = {number}"
        if self.other.is_trino:
            cells, source = [f"{kind.values[number].trino} {kind.name}" for kind in KINDS], ""
        tail = self.shape.partition(key)
        of_partition = [f"'{tail[0]}' p", f"{tail[1]} q"] if tail else []
        return f"select {', '.join([f'{key} id', *cells, *of_partition])}{source}"

    def _arrow(self, keys: Rows) -> list[pa.Table]:
        tails = {key: self.shape.partition(key) for key in keys}
        made = []
        for part in arrow_rows(keys):
            if self.shape.is_partitioned:
                ids = part.column("id").to_pylist()
                part = part.append_column("p", pa.array([tails[id][0] for id in ids]))
                part = part.append_column("q", pa.array([int(tails[id][1]) for id in ids], pa.int32()))
            made.append(part)
        return made

    def _put(self, keys: Rows) -> None:
        if self.texts:
            self.rows |= {key: self.texts[number] for key, number in keys.items()}

    def _changed(self, key: int, number: int, kinds: Sequence[Kind]) -> None:
        row = list(self.rows[key])
        for kind in kinds:
            place = KINDS.index(kind)
            row[place] = self.texts[number][place]
        self.rows[key] = row


def take_turns(table: TypedTable) -> None:
    """Hive and our programs read, append to, change and compact one table in turn; after each step both show its rows."""
    table.begin()
    table.check(BY_ROW)

    table.append({10: ORDINARY, 11: LOWEST, 12: HIGHEST, 13: NULL})
    table.check(BY_BATCH, BY_ROW)
    table.counts()
    table.predicates()
    table.joins()

    table.change(10, HIGHEST)
    table.remove(11)
    table.merge(changed=12, number=ORDINARY, removed=13, added=14)
    table.check(BY_BATCH, BY_ROW)

    table.update(0, LOWEST)
    table.update(10, NULL)
    table.delete(1, 14)
    table.upsert({2: ORDINARY, 15: HIGHEST, 16: NULL})
    table.check(BY_BATCH, BY_ROW)
    table.counts()

    table.hive_compact("minor")
    table.check(BY_ROW)
    table.append({20: ORDINARY, 21: NULL, 23: LOWEST})
    table.delete(2)
    table.compact("minor")
    table.check(BY_BATCH, BY_ROW)
    table.change(21, LOWEST)
    table.update(20, HIGHEST)
    table.compact("major")
    table.check(BY_BATCH, BY_ROW)
    table.counts()
    table.remove(20)
    table.delete(21)
    table.append({30: HIGHEST, 31: ORDINARY})
    table.hive_compact("major")
    table.check(BY_BATCH, BY_ROW)

    begin_anew(table)


def begin_anew(table: TypedTable) -> None:
    """A program overwrites all, both sides go on from there, and everything is compacted and cleaned."""
    table.overwrite({40: ORDINARY, 42: ORDINARY})
    table.append({44: NULL, 45: LOWEST})
    table.insert({46: HIGHEST, 47: NULL})
    table.change(40, LOWEST)
    table.update(46, ORDINARY)
    table.check(BY_BATCH, BY_ROW)
    table.compact("major")
    table.beside.clean_all()
    table.check(BY_BATCH, BY_ROW)
    table.joins()

"""Tables of several kinds whose rows are known by the statements that a live Hive runs on them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from compactor.acid.names import parse_directory
from compactor.compaction.states import State
from tests.support.beside import TRANSACTIONAL, Beside

HOSTILE = "a b=c/d%"  #: a value whose directory's name is escaped
STORED = "p=a b%3Dc%2Fd%25"


@dataclass(slots=True, kw_only=True)
class Story:
    """A table, the statements that Hive runs on it, and the rows that it must hold by them."""

    beside: Beside
    name: str
    columns: str
    insert: str  #: up to the values
    partition: str | None = None  #: as stored
    spec: str | None = None  #: the same as a statement has it
    tail: tuple[str, ...] = ()  #: values of partition columns in a row
    rows: dict[int, str] = field(default_factory=dict)

    def create(self) -> None:
        self.beside.hive.sql(f"create table {self.name} {self.columns} {TRANSACTIONAL}")

    def add(self, *keys: int) -> None:
        values = ", ".join(f"({key}, 'row {key}')" for key in keys)
        self.beside.hive.sql(f"{self.insert} values {values}")
        self.rows |= {key: f"row {key}" for key in keys}

    def change(self, key: int) -> None:
        self.rows[key] += " changed"
        self.beside.hive.sql(f"update {self.name} set b = '{self.rows[key]}' where a = {key}")

    def remove(self, key: int) -> None:
        self.beside.hive.sql(f"delete from {self.name} where a = {key}")
        del self.rows[key]

    def merge(self, changed: int, removed: int, added: int) -> None:
        """One statement that updates, deletes and inserts."""
        source = f"inline(array(struct({changed}, 'u'), struct({removed}, 'd'), struct({added}, 'i'))) as (k, what)"
        new = ", ".join(["s.k", f"'row {added}'", *(f"'{value}'" for value in self.tail)])
        self.rows[changed] += " changed"
        self.beside.hive.sql(
            f"merge into {self.name} t using (select {source}) s on t.a = s.k "
            f"when matched and s.what = 'u' then update set b = '{self.rows[changed]}' "
            f"when matched and s.what = 'd' then delete when not matched then insert values ({new})"
        )
        del self.rows[removed]
        self.rows[added] = f"row {added}"

    def check(self, *keys: int) -> None:
        """All rows by both sides, and Hive's answers about them and each of ``keys``, by batch and row by row."""
        self.beside.rows(self.name, ["\t".join([str(a), b, *self.tail]) for a, b in self.rows.items()])
        self.beside.scanned(self.name)
        everything = f"select row__id, * from {self.name}"
        fetched, *read = (sorted(self.beside.hive.sql(everything, session)) for session in ("main", *SESSIONS))
        assert read == [fetched, fetched]
        for key in keys:
            point = f"select a, b, count(*) from {self.name} where a = {key} group by a, b"
            wanted = [f"{key}\t{self.rows[key]}\t1"] if key in self.rows else []
            for session in SESSIONS:
                assert self.beside.hive.sql(point, session) == wanted, session

    def ours(self, kind: str) -> None:
        [done] = self.beside.compact(self.name, kind, self.partition)
        assert done["fate"] == "compacted", done

    def theirs(self, kind: str) -> None:
        self.beside.hive_compact(self.name, kind, self.spec)
        newest = self.beside.queue(State.READY_FOR_CLEANING)[-1]
        assert newest.type.label.lower() == kind
        assert newest.worker_version == self.beside.hive.release.in_queue

    def only(self, kind: type) -> None:
        """One directory is left, of ``kind``."""
        [name] = self.beside.names(self.name, self.partition)
        assert isinstance(parse_directory(name), kind), name


_KINDS: dict[str, dict[str, Any]] = {
    "plain": {"columns": "(a int, b string)", "insert": "insert into {}"},
    "bucketed": {"columns": "(a int, b string) clustered by (a) into 2 buckets", "insert": "insert into {}"},
    "partitioned": {
        "columns": "(a int, b string) partitioned by (p string)",
        "insert": f"insert into {{}} partition (p='{HOSTILE}')",
        "partition": STORED,
        "spec": f"p='{HOSTILE}'",
        "tail": (HOSTILE,),
    },
}
KINDS = tuple(_KINDS)
SESSIONS = ("by batch", "by row")


def begun(beside: Beside, kind: str) -> Story:
    """Returns a story of a new table."""
    given, name = _KINDS[kind], f"rows_{kind}"
    made = Story(beside=beside, name=name, **{**given, "insert": given["insert"].format(name)})
    made.create()
    for session in SESSIONS:
        plan = beside.hive.sql(f"explain vectorization select row__id, * from {name}", session)
        assert any("Execution mode: vectorized" in line for line in plan) == (session == "by batch")
    return made

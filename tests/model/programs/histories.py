"""Histories of one door against plain tables: statements alone, in transactions, and in pairs that stop at chosen steps."""

from __future__ import annotations

import shutil
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar
from unittest.mock import patch

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from compactor.base.errors import (
    CompactorError,
    Disagreement,
    LockNotGranted,
    NotConforming,
    NotFound,
    NotSupported,
    Refused,
    TransactionAborted,
)
from compactor.base.steps import TransactionStep
from compactor.batches.assembly import list_claimable_ids
from compactor.batches.driver import run_entries
from compactor.cleaner.cleaner import clean
from compactor.initiator.initiator import initiate
from compactor.requests.request import request_compaction
from compactor.rewrite.run.runner import InProcessRunner
from compactor.site.deployment import configure, open_site
from compactor.site.site import Site
from compactor.tables.sql.run_statements import check_text, run
from compactor.tables.store import Store
from compactor.tables.table import Table
from compactor.tables.transactions import numbers_on_disk
from tests.model.programs import drawn
from tests.model.programs.doors import Change, Door, PythonDoor
from tests.model.programs.independent_reader import rows_of_files, tables_of
from tests.model.programs.killed import kill
from tests.model.programs.plain_tables import EVERYTHING, KEY, PlainTable, in_order
from tests.model.programs.program_world import Beats
from tests.support.backups import Backup, without_memory
from tests.support.interleaving import STEPS, Acting, Interrupted, interleaving
from tests.support.passes import time_out_all
from tests.support.tables import with_settings

Tables = dict[str, PlainTable]
_MOST_TABLES = 3  #: looking takes longer with each
_LOOKS, _SELDOM = st.integers(0, 3), st.integers(0, 7)


class Missing(Exception):
    """The model has no such table, or one too many."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One of a pair: ``act`` does it through the door, ``apply`` in the model; both return what can be compared."""

    name: str
    act: Callable[[], Any]
    apply: Callable[[Tables], Any]
    defines: bool = False

    @property
    def kind(self) -> str:
        return self.name.partition(" ")[0]

    def __repr__(self) -> str:
        return self.name


class World:
    """An open site, whose database and warehouse each history makes empty again: to open one takes longer than a step."""

    def __init__(self, site: Site, folder: Path) -> None:
        self.site, self.folder = site, folder
        self._empty = Backup(folder / "metastore.db")
        self._empty.take()

    @classmethod
    @contextmanager
    def open(cls, empty_metastore: Path, folder: Path) -> Iterator[World]:
        """Opens a site on a copy of ``empty_metastore``."""
        shutil.copyfile(empty_metastore, folder / "metastore.db")
        environment = {
            "COMPACTOR_METASTORE_URL": f"sqlite:///{folder}/metastore.db",
            "COMPACTOR_WAREHOUSE": f"{folder}/w",
        }
        with open_site(configure("default", environment=environment)) as site:
            yield cls(site, folder)

    def clear(self) -> None:
        for path in self.folder.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
        self._empty.restore()


class Histories(RuleBasedStateMachine):
    """The state machine. ``seen`` counts, over all runs, what happened."""

    opened: ClassVar[World]
    door_type: ClassVar[Callable[[Site, Path], Door]]
    seen: ClassVar[Counter[str]] = Counter()

    def __init__(self) -> None:
        super().__init__()
        self.stack = ExitStack()
        self.tables: Tables = {}
        self.loaded: dict[str, tuple[Table, list[tuple[str, str]], bool]] = {}
        self.names = self.kills = 0

    @initialize(exclusive=st.booleans(), remembers=st.booleans(), first=drawn.tables(), second=drawn.tables())
    def make_world(self, exclusive: bool, remembers: bool, first: PlainTable, second: PlainTable) -> None:
        folder = self.folder = self.opened.folder
        self.database = folder / "metastore.db"
        self.opened.clear()
        self.stack.enter_context(patch("compactor.tables.transactions.transaction_block.Heartbeat", Beats))
        for module in ("reading.scan", "writing.changes"):  # to start threads takes longer than to decode a few rows
            self.stack.enter_context(patch(f"compactor.tables.{module}.THREADS", 1))
        chosen = {
            "hive.txn.opentxn.timeout": "0ms",
            "compactor.lock.wait": "1s",
            "hive.txn.xlock.write": str(exclusive).lower(),
            "hive.compactor.delta.num.threshold": "2",
        }
        settings = {key.replace(".", "_"): value for key, value in chosen.items()}
        self.site = with_settings(self.opened.site, **settings)
        self.site = self.site if remembers else without_memory(self.site)
        self.forget_looks()
        (folder / "compactor.toml").write_text(  # for doors of other processes
            f'[metastore.default]\nurl = "sqlite:///{self.database}"\nwarehouse = "{folder}/w"\n'
            "[metastore.default.settings]\n" + "".join(f'"{key}" = "{value}"\n' for key, value in chosen.items())
        )
        (folder / "w").mkdir()
        self.site.metastore.embedded_catalog.create_database("default", str(folder / "w"))
        self.door = self.door_type(self.site, folder)
        self.stopping = self.door if self.door.stops else PythonDoor(self.site, folder)
        self.kills = int(self.door.stops)  # a process takes as long as several statements
        for name, table in zip(drawn.NAMES, (first, second), strict=True):
            self.create(name, table)

    def teardown(self) -> None:
        self.stack.close()

    # -- statements alone

    @rule(data=st.data(), count=st.integers(1, 3))
    def statements(self, data: st.DataObject, count: int) -> None:
        for _ in range(count):
            change = self.drawn_change(data)
            table = self.tables[change.name]
            self.must_be_told(change, self.door.change(change, table), change.apply(table))
        self.look(data, change.name)

    @precondition(lambda self: self.door.reads_itself)
    @rule(data=st.data())
    def a_statement_that_reads_its_own_table(self, data: st.DataObject) -> None:
        name = self.drawn_name(data)
        change = self.drawn_change_from_itself(data, name, "append", "overwrite", "upsert")
        table = self.tables[name]
        self.must_be_told(change, self.door.change(change, table), change.apply(table))
        self.look(data, name)

    @rule(data=st.data(), count=st.integers(1, 3), commits=st.booleans())
    def transaction(self, data: st.DataObject, count: int, commits: bool) -> None:
        """Several statements in one transaction. After an overwrite nothing can be added to its table."""
        after = {name: table.copy() for name, table in self.tables.items()}
        changes: list[Change] = []
        expected: list[Any] = []
        overwritten: set[str] = set()
        for _ in range(count):
            change = self.drawn_change(data, after)
            is_truncation = change.kind == "overwrite" and not change.rows  # which SQL has in no transaction
            if change.name not in overwritten and not is_truncation:
                changes.append(change)
                expected.append(change.apply(after[change.name]))
                overwritten |= {change.name} if change.kind == "overwrite" else set()
        told = self.door.transaction(changes, [self.tables[change.name] for change in changes], commits=commits)
        for each, count_told, count_expected in zip(changes, told, expected, strict=True):
            self.must_be_told(each, count_told, count_expected)
        self.tables = after if commits else self.tables
        self.seen["committed" if commits else "rolled back"] += 1
        self.look(data, *(change.name for change in changes))

    @rule(data=st.data())
    def too_much_after_an_overwrite(self, data: st.DataObject) -> None:
        """A transaction that adds to what it has overwritten is refused, and nothing of it stays."""
        name = self.drawn_name(data)
        table = self.tables[name]
        rows = self.door.fitted(table, data.draw(drawn.draw_rows(table).filter(bool)))
        changes = [Change("overwrite", name, rows), Change("append", name, rows)]
        try:
            self.door.transaction(changes, [table, table], commits=True)
        except NotSupported:
            self.look(data, name)
            return
        raise AssertionError("rows were added that nobody would see")

    # -- definitions

    @rule(data=st.data(), table=drawn.tables())
    def make_again(self, data: st.DataObject, table: PlainTable) -> None:
        name = self.drawn_name(data)
        self.sql(f"DROP TABLE {name} PURGE")
        self.create(name, table)
        self.look(data, name)

    @rule(data=st.data())
    def rename(self, data: st.DataObject) -> None:
        old = self.drawn_name(data)
        new = self.next_name()
        self.sql(f"ALTER TABLE {old} RENAME TO {new}")
        self.tables[new] = self.tables.pop(old)
        self.look(data, new)

    @rule(data=st.data(), kind=st.sampled_from(("int", "string", "date", "array<int>", "char(4)")))
    def add_column(self, data: st.DataObject, kind: str) -> None:
        name, column = self.drawn_name(data), self.next_name()
        self.sql(f"ALTER TABLE {name} ADD COLUMNS ({column} {kind})")
        self.tables[name].add_column(column, kind)
        self.look(data, name)

    @rule(data=st.data())
    def load(self, data: st.DataObject) -> None:
        """A program keeps a table that it has loaded."""
        name = self.drawn_name(data)
        table = Store(self.site).load_table(f"default.{name}")
        self.loaded[name] = (table, list(self.tables[name].columns.items()), True)

    @rule(data=st.data())
    def read_by_what_was_loaded(self, data: st.DataObject) -> None:
        """PROTOCOL 14.25: it shows the rows that the same table has now, or is refused."""
        for name, (table, columns, _) in self.loaded.items():
            now = self.tables.get(name)
            try:
                count = table.scan().count() if "<" not in str(columns) else table.scan(selected_fields=[KEY]).count()
            except Refused:
                assert now is None or list(now.columns.items()) != columns or name in self.made_again
                self.seen["refused: it was loaded before"] += 1
            else:
                assert now is not None
                assert count == len(now.rows)

    # -- side by side

    @rule(data=st.data(), stop=st.integers(1, 5), is_interrupted=st.booleans())
    def two_changes(self, data: st.DataObject, stop: int, is_interrupted: bool) -> None:
        self.pair(data, ("change", "change"), stop, is_interrupted)

    @precondition(lambda self: self.door.reads_itself)
    @rule(data=st.data(), stop=st.integers(1, 5), is_first=st.booleans())
    def a_change_and_an_overwrite_from_itself(self, data: st.DataObject, stop: int, is_first: bool) -> None:
        self.pair(data, ("own", "change") if is_first else ("change", "own"), stop, is_interrupted=False)

    @rule(data=st.data(), stop=st.integers(1, 4), is_first=st.booleans())
    def a_change_and_a_table_created_as_it(self, data: st.DataObject, stop: int, is_first: bool) -> None:
        self.pair(data, ("create", "change") if is_first else ("change", "create"), stop, is_interrupted=False)

    @rule(data=st.data(), stop=st.integers(1, 3), kind=st.sampled_from(("change", "scan", "create")))
    def a_statement_and_a_definition(self, data: st.DataObject, stop: int, kind: str) -> None:
        defining = data.draw(st.sampled_from(("rename", "drop", "add")))
        kinds = (kind, defining) if data.draw(st.booleans()) else (defining, kind)
        self.pair(data, kinds, stop, is_interrupted=False)

    @rule(data=st.data(), stop=st.integers(1, 4), kind=st.sampled_from(("change", "scan")))
    def a_statement_and_a_role(self, data: st.DataObject, stop: int, kind: str) -> None:
        self.pair(data, (kind, data.draw(st.sampled_from(("compact", "clean", "change")))), stop, is_interrupted=False)

    def pair(self, data: st.DataObject, kinds: tuple[str, str], stop: int, is_interrupted: bool) -> None:
        """One operation stops at one of its steps, another one is done until it waits or ends, and then both end: what they
        have told and left behind is what they do one after the other, in some order."""
        name = self.drawn_name(data)
        doors = (self.stopping, self.door)
        first, second = (self.drawn_operation(data, kind, name, door) for kind, door in zip(kinds, doors, strict=True))
        before = {name: table.copy() for name, table in self.tables.items()}
        with interleaving() as stage:
            one, other = stage.begin(first.act, STEPS), stage.begin(second.act, STEPS)
            for _ in range(stop):
                if one.is_over or one.go_on() is None:
                    break
            while not other.is_over:
                if other.go_on() is TransactionStep.LOCK_AWAITED:
                    self.seen["waited"] += 1
                    break
            if is_interrupted and not one.is_over:
                one.interrupt()
                self.seen["interrupted"] += 1
            told = [_outcome(one), _outcome(other)]
        self.adopt([first, second], told, before)
        if not self.tables:
            self.create(self.next_name(), PlainTable({KEY: "int"}))
        self.look(data)

    # -- accidents

    @precondition(lambda self: self.kills)
    @rule(data=st.data(), nth=st.integers(1, 14))
    def killed(self, data: st.DataObject, nth: int) -> None:
        """A program is killed at any step, also within the committing database transaction: its change is done or not."""
        self.kills -= 1
        change = self.drawn_change(data)
        name = change.name
        code = kill(self.folder, change, self.tables[name], nth)
        assert code in (0, -signal.SIGKILL), f"{change} failed"
        self.seen["killed"] += code != 0
        time_out_all(self.site)
        operations = [
            Operation(f"killed {change}", lambda: None, lambda tables: change.apply(_known(tables, name))),
            Operation("nothing", lambda: None, lambda tables: None),
        ]
        told = [Interrupted() if code else None, None]
        self.adopt(operations, told, {known: table.copy() for known, table in self.tables.items()})
        self.look(data, name)

    @rule(data=st.data(), compacts=st.booleans())
    def restored_for_a_while(self, data: st.DataObject, compacts: bool) -> None:
        """PROTOCOL 11.2, 11.3: under an older copy of the database a table shows the rows of the copy if its files are
        those, and else it is refused, and so is every write into it, before a number is drawn."""
        change = self.drawn_change(data)
        name = change.name
        before, files = self.tables[name].copy(), self.files_of(name)
        older, newer = Backup(self.database), Backup(self.database)
        older.take()
        if compacts:
            self.compaction(name, "major")
        else:
            self.must_be_told(change, self.door.change(change, before), change.apply(self.tables[name]))
        is_other = self.files_of(name) != files
        newer.take()
        older.restore()
        self.forget_looks()
        try:
            if is_other:
                self.must_be_refused(data, name, before, compacts=compacts)
            else:
                assert self.door.scan(name, before, EVERYTHING, list(before.columns)) == before.shown()
        finally:
            newer.restore()
            self.forget_looks()
        self.seen["restored"] += is_other
        self.look(data, name)

    def must_be_refused(self, data: st.DataObject, name: str, before: PlainTable, *, compacts: bool) -> None:
        """Looks at a table of which the database has forgotten something. An output of a compaction that it has forgotten
        holds the same rows, and may be read."""
        columns, where = list(before.columns), data.draw(drawn.conditions(before))
        rows = self.door.fitted(before, data.draw(drawn.draw_rows(before).filter(bool)))
        with suppress(Disagreement) if compacts else pytest.raises(Disagreement):
            assert self.door.scan(name, before, EVERYTHING, columns) == before.shown()
        with suppress(Disagreement):  # other partitions may have what it asks for
            assert self.door.scan(name, before, where, columns) == before.shown(before.select(where))
        metastore = self.site.metastore
        drawn_before = metastore.transactions.newest(), metastore.write_ids.next("default", name)
        for kind in ("append", "overwrite"):
            with pytest.raises(Disagreement):
                self.door.change(Change(kind, name, rows), before)
        assert drawn_before == (metastore.transactions.newest(), metastore.write_ids.next("default", name))

    def files_of(self, name: str) -> set[str]:
        """Returns the files of a table that readers may see."""
        root = Path(self.site.metastore.catalog.table("default", name).location)
        return {
            str(path) for path in root.rglob("*") if path.is_file() and "/." not in str(path.relative_to(root.parent))
        }

    def forget_looks(self) -> None:
        """As another process: nothing was looked at yet."""
        numbers_on_disk._AGREED.clear()
        if self.site.memory is not None:
            self.site.memory.checked_at = self.site.memory.listed_at = None

    def adopt(self, operations: list[Operation], told: list[Any], before: Tables) -> None:
        """Takes over the outcome of the first order of the operations that explains what they told and what is there."""
        wrong: list[str] = []
        actual: dict[str, list[tuple[Any, ...]]] = {}
        for order in ((0, 1), (1, 0)):
            for done in _possible(told):
                after = {name: table.copy() for name, table in before.items()}
                why = next(filter(None, (self.differs(operations, told, place, done, after) for place in order)), None)
                why = why or self.tables_differ(after, actual)
                if why is None:
                    self.tables = after
                    self.seen.update(f"{operations[place].kind}: {type(told[place]).__name__}" for place in order)
                    return
                wrong.append(f"{order}, done {done}: {why}")
        raise AssertionError(f"{operations} told {told}; " + "; ".join(wrong))

    def differs(
        self, operations: list[Operation], told: list[Any], place: int, done: tuple[bool, ...], after: Tables
    ) -> str | None:
        """Does one of the operations in the model; returns why that is not what it told."""
        operation, other, answer = operations[place], operations[1 - place], told[place]
        if isinstance(answer, BaseException) and not isinstance(answer, Interrupted):
            allowed = isinstance(answer, LockNotGranted | TransactionAborted)
            stale = other.defines and isinstance(answer, NotFound | Refused | NotConforming)
            return None if allowed or stale else f"{operation} failed: {answer!r}"
        if not done[place]:
            return None
        try:
            expected = operation.apply(after)
        except Missing as error:
            return f"{operation}: {error}"
        is_told = answer is not None and expected is not None and not isinstance(answer, Interrupted)
        return f"{operation} told {answer}, wanted {expected}" if is_told and answer != expected else None

    def tables_differ(self, after: Tables, actual: dict[str, list[tuple[Any, ...]]]) -> str | None:
        """Returns why the files differ from ``after``; ``actual`` keeps what they say, which takes longer than comparing."""
        if (names := tables_of(self.database)) != set(after):
            return f"tables {names}, wanted {set(after)}"
        for name, table in after.items():
            if (key := f"{name} {table.columns}") not in actual:
                actual[key] = rows_of_files(self.database, name, table)
            if actual[key] != table.shown():
                return f"{name} has {actual[key]}, wanted {table.shown()}"
        return None

    # -- roles

    @rule(data=st.data(), kind=st.sampled_from(("minor", "major", None)))
    def compact(self, data: st.DataObject, kind: str | None) -> None:
        name = self.drawn_name(data)
        self.compaction(name, kind)
        self.look(data, *([] if kind is None else [name]))

    @rule(data=st.data())
    def clean(self, data: st.DataObject) -> None:
        clean(self.site)
        self.look(data)

    def compaction(self, name: str, kind: str | None) -> None:
        if kind is None:
            initiate(self.site)
        else:
            table = self.site.metastore.catalog.table("default", name)
            parts = [part.name for part in self.site.metastore.catalog.partitions(table)]
            for part in parts if table.is_partitioned else [None]:
                with suppress(Refused):  # one is there already
                    request_compaction(self.site, table=f"default.{name}", partition=part, type=kind)
        done = run_entries(self.site, list_claimable_ids(self.site), InProcessRunner())
        self.seen.update(outcome.result.name for outcome in done.outcomes)

    # -- looking

    def look(self, data: st.DataObject, *names: str) -> None:
        """The files of the tables ``names`` that are there, of all without a name, and what a look through the door shows of
        them are those of the model; of the other tables now and then."""
        for name, table in self.tables.items():
            if names and name not in names and data.draw(_SELDOM):
                continue
            whole = table.shown()
            assert rows_of_files(self.database, name, table) == whole, f"{name}, as its files say"
            where = data.draw(drawn.conditions(table))
            columns = data.draw(drawn.names(table))
            chosen = table.select(where)
            looks: tuple[tuple[Callable[[], Any], Any], ...] = (
                (partial(self.door.scan, name, table, EVERYTHING, list(table.columns)), whole),
                (partial(self.door.count, name, EVERYTHING), len(whole)),
                (partial(self.door.scan, name, table, where, columns), table.shown(chosen, columns)),
                (partial(self.door.count, name, where), len(chosen)),
            )
            look, expected = looks[data.draw(_LOOKS)]
            assert look() == expected, (look, expected)

    def must_be_told(self, change: Change, told: int | None, expected: int) -> None:
        assert told is None or told == expected, (change, told, expected)

    # -- drawing

    def create(self, name: str, table: PlainTable) -> None:
        """Creates a table with its rows, which come in two commits."""
        made = PlainTable(dict(table.columns), table.is_partitioned, table.buckets)
        self.door.create(name, made)
        rows, half = self.door.fitted(made, table.rows), len(table.rows) // 2
        for some in filter(None, (rows[:half], rows[half:])):
            self.stopping.change(Change("append", name, some), made)
            made.append(some)
        self.tables[name] = made

    @property
    def made_again(self) -> set[str]:
        """The names that another table has than when they were loaded."""
        return {
            name
            for name, (table, _, _) in self.loaded.items()
            if name in self.tables and self.site.metastore.catalog.table("default", name).id != table._table.id
        }

    def sql(self, *texts: str) -> None:
        for _ in run(self.site, check_text("; ".join(texts))):
            pass

    def next_name(self) -> str:
        self.names += 1
        return f"n{self.names}"

    def drawn_name(self, data: st.DataObject) -> str:
        return data.draw(st.sampled_from(sorted(self.tables)))

    def drawn_change(self, data: st.DataObject, tables: Tables | None = None, names: tuple[str, ...] = ()) -> Change:
        """Draws a change of ``tables``, which are those that a transaction sees, or of all."""
        in_transaction = tables is not None
        tables = self.tables if tables is None else tables
        name = data.draw(st.sampled_from(names or sorted(tables)))
        table = tables[name]
        kinds = ("append", "overwrite", "delete", "update", "upsert")
        kind = data.draw(st.sampled_from((*kinds, "append" if in_transaction else "stream")))
        if kind in ("append", "stream", "overwrite"):
            return Change(kind, name, self.door.fitted(table, data.draw(drawn.draw_rows(table))))
        if kind == "upsert":
            rows = self.door.fitted(table, data.draw(drawn.draw_rows(table)))
            keys = {row[KEY]: row for row in rows if row[KEY] is not None}
            return Change(kind, name, (*keys.values(), *(row for row in rows if row[KEY] is None)))
        where = data.draw(drawn.conditions(table, self.door.compared))
        values = data.draw(drawn.assignments(table)) if kind == "update" else {}
        return (
            Change(kind, name, (), where, values) if values or kind == "delete" else Change("delete", name, (), where)
        )

    def drawn_change_from_itself(self, data: st.DataObject, name: str, *kinds: str) -> Change:
        """Draws a statement that writes rows of the table into it; no upsert of rows whose keys it would refuse."""
        table, kind = self.tables[name], data.draw(st.sampled_from(kinds))
        own = data.draw(drawn.conditions(table, self.door.compared))
        keys = [row[KEY] for row in table.select(own)]
        if kind == "upsert" and len(set(keys) - {None}) < len(keys) - keys.count(None):
            kind = "append"
        return Change(kind, name, own=own)

    def drawn_operation(self, data: st.DataObject, kind: str, name: str, door: Door) -> Operation:
        table = self.tables[name].copy()
        kind = "scan" if kind == "create" and len(self.tables) >= _MOST_TABLES else kind
        match kind:
            case "scan":
                where = data.draw(drawn.conditions(table))
                columns = list(table.columns)

                def shown(tables: Tables) -> Any:
                    now = _known(tables, name)
                    return in_order(now.shown(now.select(where), columns))

                return Operation(f"scan {name} {where}", lambda: door.scan(name, table, where, columns), shown)
            case "rename":
                new = self.next_name()

                def renamed(tables: Tables) -> None:
                    tables[new] = _known(tables, name)
                    del tables[name]

                return Operation(
                    f"rename {name}", lambda: self.sql(f"ALTER TABLE {name} RENAME TO {new}"), renamed, True
                )
            case "drop":

                def dropped(tables: Tables) -> None:
                    _known(tables, name)
                    del tables[name]

                return Operation(f"drop {name}", lambda: self.sql(f"DROP TABLE {name} PURGE"), dropped, True)
            case "add":
                column = self.next_name()
                text = f"ALTER TABLE {name} ADD COLUMNS ({column} int)"
                return Operation(
                    f"add to {name}",
                    lambda: self.sql(text),
                    lambda tables: _known(tables, name).add_column(column, "int"),
                    True,
                )
            case "create":
                new, where = self.next_name(), data.draw(drawn.conditions(table))
                text = f"CREATE TABLE {new} AS SELECT {', '.join(table.columns)} FROM {name} WHERE {where.text}"

                def created(tables: Tables) -> None:
                    now = _known(tables, name)
                    tables[new] = PlainTable(dict(table.columns), rows=[dict(row) for row in now.select(where)])

                return Operation(f"create as {name}", lambda: self.sql(text), created)
            case "compact":
                return Operation(f"compact {name}", lambda: self.compaction(name, "major"), lambda tables: None)
            case "clean":
                return Operation("clean", lambda: clean(self.site) and None, lambda tables: None)
        own = kind == "own"
        change = (
            self.drawn_change_from_itself(data, name, "overwrite") if own else self.drawn_change(data, names=(name,))
        )
        of_change = self.tables[change.name].copy()
        return Operation(
            f"{change.kind} {change}",
            lambda: door.change(change, of_change),
            lambda tables: change.apply(_known(tables, change.name)),
        )


def _known(tables: Tables, name: str) -> PlainTable:
    if name not in tables:
        raise Missing(f"there is no {name}")
    return tables[name]


def _outcome(acting: Acting[Any]) -> Any:
    """Returns what a statement returns, or the error that it ends with."""
    try:
        return acting.end()
    except (CompactorError, Interrupted) as error:
        return error


def _possible(told: list[Any]) -> Iterator[tuple[bool, ...]]:
    """Yields which of the operations are done: an interrupted one is, or is not."""
    yield (True, True)
    for place, answer in enumerate(told):
        if isinstance(answer, Interrupted):
            yield tuple(other != place for other in range(len(told)))

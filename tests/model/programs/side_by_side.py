"""Programs that write and read tables side by side with all roles, as Hypothesis orders them, against ``versions.Model``."""

from __future__ import annotations

from contextlib import suppress

import pyarrow as pa
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule
from sqlalchemy import delete, update

from compactor.base.errors import CompactorError, LockNotGranted, Refused
from compactor.batches.assembly import list_claimable_ids
from compactor.batches.driver import run_entries
from compactor.cleaner.cleaner import clean
from compactor.housekeeper.housekeeper import keep_house
from compactor.initiator.initiator import initiate
from compactor.metastore.schema.tables import HIVE_LOCKS, TXNS
from compactor.requests.request import request_compaction
from compactor.rewrite.run.runner import InProcessRunner
from compactor.tables.table import Table
from tests.model.programs.conditions import CONDITIONS, Condition
from tests.model.programs.program_tables import PARTITIONED, TABLES, arrow, named, of_arrow, rows_of, slow_rows
from tests.model.programs.program_world import MOST_OPEN, ProgramWorld, Reading
from tests.model.programs.versions import Writer


class Programs(ProgramWorld):
    """The state machine."""

    @initialize(exclusive=st.booleans())
    def begin_world(self, exclusive: bool) -> None:
        self.make_world(exclusive)

    @precondition(lambda self: self.open)
    @rule(place=st.integers(0, MOST_OPEN - 1), commits=st.sampled_from((True, True, True, False)))
    def end(self, place: int, commits: bool) -> None:
        self.finish(self.open[place % len(self.open)], commits=commits)

    # -- statements

    @rule(
        place=st.integers(0, MOST_OPEN),
        name=st.sampled_from(TABLES),
        rows=st.data(),
        meanwhile=st.integers(0, MOST_OPEN),
    )
    def append(self, place: int, name: str, rows: st.DataObject, meanwhile: int) -> None:
        made = self.drawn_rows(rows, 6)

        with self.with_meanwhile(meanwhile):
            self.statement(
                place,
                name,
                lambda table: table.append(arrow(made)),
                lambda writer: self.added(writer, name, made),
                unseen=None,
            )

    @rule(
        place=st.integers(0, MOST_OPEN),
        name=st.sampled_from(TABLES),
        rows=st.data(),
        meanwhile=st.integers(0, MOST_OPEN),
    )
    def overwrite(self, place: int, name: str, rows: st.DataObject, meanwhile: int) -> None:
        made = self.drawn_rows(rows, 3)

        def mirror(writer: Writer) -> int:
            self.model.overwrite(writer, name, made)
            return len(made)

        with self.with_meanwhile(meanwhile):
            self.statement(place, name, lambda table: table.overwrite(arrow(made)), mirror, unseen=True)

    @rule(
        place=st.integers(0, MOST_OPEN),
        name=st.sampled_from(TABLES),
        where=st.sampled_from(CONDITIONS),
        meanwhile=st.integers(0, MOST_OPEN),
    )
    def delete(self, place: int, name: str, where: Condition, meanwhile: int) -> None:
        with self.with_meanwhile(meanwhile):
            self.statement(
                place,
                name,
                lambda table: table.delete(where.text),
                lambda writer: len(self.model.change(writer, name, where.holds, lambda _: [])[0]),
                unseen=False,
            )

    @rule(
        place=st.integers(0, MOST_OPEN),
        name=st.sampled_from(TABLES),
        where=st.sampled_from(CONDITIONS),
        note=st.sampled_from((None, "a", "z")),
        meanwhile=st.integers(0, MOST_OPEN),
    )
    def update(self, place: int, name: str, where: Condition, note: str | None, meanwhile: int) -> None:
        value = "NULL" if note is None else f"'{note}'"

        def mirror(writer: Writer) -> int:
            changed = self.model.change(
                writer, name, where.holds, lambda gone: [row._replace(note=note) for row in gone]
            )
            return len(changed[0])

        with self.with_meanwhile(meanwhile):
            self.statement(place, name, lambda table: table.update({"note": value}, where.text), mirror, unseen=False)

    @rule(
        place=st.integers(0, MOST_OPEN),
        name=st.sampled_from(TABLES),
        rows=st.data(),
        meanwhile=st.integers(0, MOST_OPEN),
    )
    def upsert(self, place: int, name: str, rows: st.DataObject, meanwhile: int) -> None:
        made = list({row.id: row for row in self.drawn_rows(rows, 4)}.values())

        def mirror(writer: Writer) -> tuple[int, int]:
            keys = {row.id for row in made} - {None}
            gone, _ = self.model.change(writer, name, lambda row: row.id in keys, lambda _: made)
            found = len({row.id for row in gone})
            return found, len(made) - found

        def act(table: Table) -> tuple[int, int]:
            done = table.upsert(arrow(made), ["id"])
            return done.updated, done.inserted

        with self.with_meanwhile(meanwhile):
            self.statement(place, name, act, mirror, unseen=True)

    # -- reading

    @rule(place=st.integers(0, MOST_OPEN - 1), name=st.sampled_from(TABLES), where=st.sampled_from(CONDITIONS))
    def look(self, place: int, name: str, where: Condition) -> None:
        """A transaction reads: always the same, but for what it has done itself."""
        program = self.program_at(place)
        assert program is not None
        others = self.has_others(program, name)
        program.touch(name)
        try:
            found = rows_of(program.txn.load_table(f"default.{name}"), where.text)
        except LockNotGranted:
            assert others
        except CompactorError:
            if not program.may_fail:
                raise
        else:
            self.model.look(program.writer)
            assert found == [row for row in self.model.rows(name, program.writer) if where.holds(row)], name

    @precondition(lambda self: len(self.readings) < 2)
    @rule(name=st.sampled_from(TABLES))
    def begin_reading(self, name: str) -> None:
        others, wanted = self.has_others(None, name), self.model.rows(name)
        try:
            rows = self.store.load_table(f"default.{name}").scan().to_arrow_batch_reader()
        except LockNotGranted:
            assert others
            return
        reading = Reading(rows=rows, table=name, wanted=wanted, found=[])
        self.readings.append(reading)
        if wanted:
            reading.found += of_arrow(pa.Table.from_batches([rows.read_next_batch()]))

    @precondition(lambda self: self.readings)
    @rule()
    def end_reading(self) -> None:
        reading = self.readings.pop(0)
        reading.found += of_arrow(reading.rows.read_all())
        assert sorted(reading.found, key=repr) == reading.wanted, reading.table

    @rule(name=st.sampled_from(TABLES))
    def look_alone(self, name: str) -> None:
        """Everybody sees what was committed, and a ROW__ID is always that of one row."""
        others = self.has_others(None, name)
        try:
            found = self.store.load_table(f"default.{name}").scan(row_ids=True).to_arrow()
        except LockNotGranted:  # an overwrite that locks readers out
            assert others
            return
        assert of_arrow(found) == self.model.rows(name), name
        for id, row in zip(found.column(0).to_pylist(), named(found), strict=True):
            known = self.row_ids.setdefault((name, row.day if name in PARTITIONED else "", tuple(id.values())), row)
            assert known == row, f"{name}: ROW__ID {id} was that of {known}"

    # -- roles and accidents

    @rule(name=st.sampled_from(TABLES), kind=st.sampled_from(("minor", "major", None)))
    def compact(self, name: str, kind: str | None) -> None:
        if kind is None:
            initiate(self.site)
        else:
            with suppress(Refused):  # one is there already
                request_compaction(self.site, table=f"default.{name}", type=kind)
        done = run_entries(self.site, list_claimable_ids(self.site), InProcessRunner())
        self.seen.update(outcome.result.name for outcome in done.outcomes)
        self.look_alone(name)

    @rule(name=st.sampled_from(TABLES))
    def clean(self, name: str) -> None:
        before = len(list(self.location.glob("*/*")))
        clean(self.site)
        self.seen["cleaned"] += len(list(self.location.glob("*/*"))) < before
        self.look_alone(name)

    @precondition(lambda self: self.open)
    @rule(place=st.integers(0, MOST_OPEN - 1), is_forgotten=st.booleans(), is_noticed=st.booleans())
    def time_out(self, place: int, is_forgotten: bool, is_noticed: bool) -> None:
        """A program was suspended for longer than hive.txn.timeout; the heartbeat may notice before anybody else does."""
        program = self.open[place % len(self.open)]
        program.is_lost = True
        with self.site.metastore.database.write() as conn:
            conn.execute(update(TXNS).where(program.txn.id == TXNS.c.TXN_ID).values(TXN_LAST_HEARTBEAT=0))
        keep_house(self.site)
        if is_forgotten:
            self.forget(program.txn.id)
        if is_noticed:
            program.heart.beat()

    @precondition(lambda self: any(program.touched for program in self.open))
    @rule(place=st.integers(0, MOST_OPEN - 1), is_noticed=st.booleans())
    def lose_locks(self, place: int, is_noticed: bool) -> None:
        """Somebody removes the locks of an open transaction; its next heartbeat notices, or its commit."""
        holding = [program for program in self.open if program.touched]
        program = holding[place % len(holding)]
        with self.site.metastore.database.write() as conn:
            gone = conn.execute(delete(HIVE_LOCKS).where(program.txn.id == HIVE_LOCKS.c.HL_TXNID)).rowcount
        if is_noticed:
            program.heart.beat()
        program.is_lost = program.is_lost or (is_noticed and gone > 0)
        program.is_unlocked = program.is_unlocked or gone > 0

    # -- the end

    def teardown(self) -> None:
        try:
            if hasattr(self, "store"):
                self._settle()
        finally:
            self.stack.close()

    def _settle(self) -> None:
        while self.readings:
            self.end_reading()
        for program in list(self.open):
            self.finish(program, commits=False)
        for _ in range(2):
            for name in TABLES:
                self.look_alone(name)
                assert slow_rows(self.site, name) == self.model.rows(name), f"{name}, read slowly"
            clean(self.site)

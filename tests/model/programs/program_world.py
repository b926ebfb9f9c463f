"""The world in which programs of the model live: open transactions, each with what the model knows of it.

One thread does everything, so that a failure shrinks: where a statement would wait for a lock, another transaction may
end, and heartbeats beat when a rule says so.
"""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, TypeVar
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine
from sqlalchemy import Column as SqlColumn
from sqlalchemy import delete, update

from compactor.base.errors import CompactorError, LockNotGranted, NotSupported, WriteConflict
from compactor.metastore.schema.tables import MIN_HISTORY_LEVEL, TXN_COMPONENTS, TXN_TO_WRITE_ID, TXNS
from compactor.metastore.transactions.open_limits import OPEN_TXN_TIMEOUT_MS
from compactor.site.deployment import configure, open_site
from compactor.site.heartbeat import Heartbeat
from compactor.tables.store import Store, StoreTransaction
from compactor.tables.table import Table
from tests.model.programs.program_tables import DAYS, OTHERS, PARTITIONED, TABLES, arrow, make_tables
from tests.model.programs.versions import Model, Overwritten, Row, Writer
from tests.support.tables import with_settings

_ROOM = "compactor.tables.transactions"
MOST_OPEN = 4
_T = TypeVar("_T")


class Beats(Heartbeat):
    """A heartbeat without a thread: it beats when it is told to."""

    def __enter__(self) -> Beats:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def beat(self) -> None:
        self._act()


@dataclass(slots=True, eq=False, kw_only=True)
class Program:
    """An open transaction of a program, and what the model knows of it."""

    context: AbstractContextManager[StoreTransaction]
    txn: StoreTransaction
    writer: Writer
    heart: Beats
    touched: set[str] = field(default_factory=set)  #: tables on which it may hold locks
    is_lost: bool = False  #: somebody has ended it, or it knows that its locks are gone
    is_unlocked: bool = False  #: somebody has taken its locks away
    has_locked_again: bool = False  #: it may have taken others since, and nobody notices that some are gone

    @property
    def may_fail(self) -> bool:
        return self.is_lost or self.is_unlocked

    @property
    def must_fail(self) -> bool:
        """Its writes are no longer protected."""
        return self.is_lost or (self.is_unlocked and not self.has_locked_again and bool(self.writer.written))

    def touch(self, table: str) -> None:
        """It takes locks on ``table``."""
        self.touched.add(table)
        self.has_locked_again = self.is_unlocked


@dataclass(slots=True, eq=False, kw_only=True)
class Reading:
    """A scan that is read batch by batch, and the rows that it has to show."""

    rows: pa.RecordBatchReader
    table: str
    wanted: list[Row]
    found: list[Row]


class OnPurpose(Exception):
    """Ends a transaction that is to be aborted."""


class ProgramWorld(RuleBasedStateMachine):
    """Tables, programs and readers. ``seen`` counts, over all runs, what the product answered."""

    empty_metastore: Path
    seen: ClassVar[Counter[str]] = Counter()

    def __init__(self) -> None:
        super().__init__()
        self.stack = ExitStack()
        self.model = Model(PARTITIONED, OTHERS)
        self.open: list[Program] = []
        self.readings: list[Reading] = []
        self.hearts: list[Beats] = []
        self.meanwhile: int | None = None  #: the program that ends, by its place, where a statement waits
        self.working: Program | None = None  #: whose statement it is
        self.row_ids: dict[tuple[str, str, tuple[int, ...]], Row] = {}  #: by table, partition and ROW__ID
        self.serial = 0

    def make_world(self, exclusive: bool) -> None:
        """``hive.txn.xlock.write``: writers of rows exclude each other, or the first committer wins."""
        folder = Path(self.stack.enter_context(tempfile.TemporaryDirectory(dir=self.empty_metastore.parent)))
        shutil.copyfile(self.empty_metastore, folder / "metastore.db")
        environment = {
            "COMPACTOR_METASTORE_URL": f"sqlite:///{folder}/metastore.db",
            "COMPACTOR_WAREHOUSE": f"{folder}/w",
        }
        self.stack.enter_context(patch(f"{_ROOM}.held_locks.time", SimpleNamespace(sleep=self._waits)))
        self.stack.enter_context(patch(f"{_ROOM}.transaction_block.Heartbeat", self._heartbeat))
        site = self.stack.enter_context(open_site(configure("default", environment=environment)))
        self.site = with_settings(
            site,
            hive_txn_opentxn_timeout="0ms",
            compactor_lock_wait="1s",
            hive_txn_xlock_write=str(exclusive).lower(),
            hive_compactor_delta_num_threshold="2",
        )
        self.store = Store(self.site)
        self.location = folder / "w"
        self.location.mkdir()
        make_tables(self.site, self.location)
        for name in TABLES:
            for first in (0, 2):
                made = [Row(first + at, note, self.next_serial(), day) for at, note in enumerate("ab") for day in DAYS]
                self.alone(
                    name,
                    lambda table, made=made: table.append(arrow(made)),
                    lambda writer, name=name, made=made: self.added(writer, name, made),
                )

    def _heartbeat(self, *arguments: Any, **named: Any) -> Beats:
        self.hearts.append(Beats(*arguments, **named))
        return self.hearts[-1]

    def _waits(self, _seconds: float) -> None:
        """A statement waits for its lock: now the other transaction ends, if the rule has drawn one."""
        place, self.meanwhile = self.meanwhile, None
        if place is not None and place < len(self.open) and self.open[place] is not self.working:
            self.seen["ended while another waited"] += 1
            self.finish(self.open[place], commits=True)

    def begin(self) -> None:
        """Opens a transaction."""
        context = self.store.transaction()
        txn = context.__enter__()
        self.open.append(Program(context=context, txn=txn, writer=self.model.begin(), heart=self.hearts[-1]))

    def finish(self, program: Program, *, commits: bool) -> None:
        self.open.remove(program)
        if not commits:
            assert not program.context.__exit__(OnPurpose, OnPurpose(), None)
            return
        try:
            program.context.__exit__(None, None, None)
        except WriteConflict:
            assert self.model.must_lose(program.writer) or program.may_fail
            self.seen["lost at its commit"] += 1
        except CompactorError as error:
            if not program.may_fail:
                raise
            self.seen[f"ended by others: {type(error).__name__}"] += 1
        else:
            assert not program.must_fail
            assert not self.model.must_lose(program.writer)
            self.model.commit(program.writer)
            self.seen["committed"] += 1

    def program_at(self, place: int) -> Program | None:
        """Returns the open transaction at ``place``, which is opened if there is none; None for a statement alone."""
        if place >= MOST_OPEN:
            return None
        if place >= len(self.open):
            self.begin()
        return self.open[min(place, len(self.open) - 1)]

    def statement(
        self,
        place: int,
        name: str,
        act: Callable[[Table], _T],
        mirror: Callable[[Writer], _T],
        *,
        unseen: bool | None,
    ) -> None:
        """One statement, in the transaction at ``place`` or in one of its own.

        Args:
            unseen: None for a statement that overtakes nobody; else true where it fails also for rows that were only
                inserted meanwhile.
        """
        self.working = program = self.program_at(place)
        if program is None:
            self.alone(name, act, mirror)
            return
        others = self.has_others(program, name)
        program.touch(name)
        before, is_new = program.txn.id, program.writer.sees is None
        try:
            answer = act(program.txn.load_table(f"default.{name}"))
        except LockNotGranted:
            assert others
            self.seen["lock not granted"] += 1
        except WriteConflict:
            assert unseen is not None
            assert program.may_fail or (not is_new and self.model.later(program.writer, name, changes=not unseen))
            self.seen["lost before it looked"] += 1
        except NotSupported:
            with pytest.raises(Overwritten):
                mirror(program.writer)
            self.seen["refused after an overwrite"] += 1
        except CompactorError:
            if not program.may_fail:
                raise
            self.seen["failed, lost"] += 1
        else:
            if program.txn.id != before:
                assert is_new
                self.model.begin_again(program.writer)
                self.seen["began again"] += 1
            elif unseen is not None and not program.may_fail:
                assert not self.model.later(program.writer, name, changes=not unseen) or is_new
            assert answer == mirror(program.writer), name

    def alone(self, name: str, act: Callable[[Table], _T], mirror: Callable[[Writer], _T]) -> None:
        others = self.has_others(None, name)
        try:
            answer = act(self.store.load_table(f"default.{name}"))
        except LockNotGranted:
            assert others
            self.seen["lock not granted"] += 1
            return
        writer = self.model.begin()
        assert answer == mirror(writer), name
        self.model.commit(writer)

    def has_others(self, program: Program | None, name: str) -> bool:
        """Returns true if another one may hold a lock on the table."""
        return any(name in other.touched for other in self.open if other is not program) or any(
            name == reading.table for reading in self.readings
        )

    def added(self, writer: Writer, name: str, rows: list[Row]) -> int:
        return len(self.model.change(writer, name, lambda row: False, lambda _: rows)[1])

    def next_serial(self) -> int:
        self.serial += 1
        return self.serial

    @contextmanager
    def with_meanwhile(self, other: int) -> Iterator[None]:
        self.meanwhile = other
        try:
            yield
        finally:
            self.meanwhile = None

    def drawn_rows(self, data: st.DataObject, most: int) -> list[Row]:
        drawn = data.draw(
            st.lists(
                st.tuples(
                    st.sampled_from((0, 1, 2, 3, 4, None)),
                    st.sampled_from((None, "a", "b", "ab")),
                    st.sampled_from(DAYS),
                ),
                min_size=1,
                max_size=most,
            )
        )
        return [Row(id, note, self.next_serial(), day) for id, note, day in drawn]

    def forget(self, txn: int) -> None:
        """As Hive's housekeeping does, which knows nothing of staging directories, and keeps the newest row of TXNS that is
        older than hive.txn.opentxn.timeout, and younger ones."""
        transactions = self.site.metastore.transactions
        transactions.commit(transactions.open("somebody", "elsewhere")[0])
        columns: list[SqlColumn[Any]] = [
            TXN_COMPONENTS.c.TC_TXNID,
            TXN_TO_WRITE_ID.c.T2W_TXNID,
            MIN_HISTORY_LEVEL.c.MHL_TXNID,
            TXNS.c.TXN_ID,
        ]
        with self.site.metastore.database.write() as conn:
            conn.execute(update(TXNS).values(TXN_STARTED=TXNS.c.TXN_STARTED - 2 * OPEN_TXN_TIMEOUT_MS))
            for column in columns:
                conn.execute(delete(column.table).where(column == txn))

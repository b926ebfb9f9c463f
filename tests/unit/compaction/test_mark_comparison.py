"""Marks of a database that only goes on, and of one that was put back (PROTOCOL 11.2)."""

from __future__ import annotations

import copy
import json
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compactor.base.ids import TxnId, WriteId
from compactor.compaction.mark_comparison import (
    KEPT_TOKENS,
    MAX_STARTS,
    MAX_TABLES,
    SETTLED_MS,
    Contradiction,
    Marks,
    MarkToken,
    Present,
    Remembered,
    TableMark,
    build_remembered,
    find_doubt,
    has_changed,
    keep_most_written,
    lacks_files,
    remembered_claims,
    thin_out,
)

TABLES = {7: TableMark(name="db.t", next_write_id=WriteId(5), created=1_700_000_000)}
MARKS = Marks(newest=TxnId(30), unfinished=1, next_lock=9, next_compaction=4, starts={TxnId(30): 1_000}, tables=TABLES)
TOKEN = MarkToken(number=12, text="abc", at=50_000, seen=11)
FILE = Remembered(token=TOKEN, marks=MARKS, claims="c1a1")
NOW = Present(now_ms=60_000, newest=TxnId(31), marks=MARKS, tokens=(TOKEN, replace(TOKEN, number=11, text="older")))


def with_marks(**changed: Any) -> Present:
    return replace(NOW, marks=replace(MARKS, **changed))


def found(now: Present, *files: Remembered) -> tuple[Contradiction, ...]:
    answer = find_doubt(files or (FILE,), now, files or (FILE,))
    return () if answer is None else answer.contradictions


@pytest.mark.parametrize(
    "now",
    [
        NOW,
        replace(NOW, newest=TxnId(99), tokens=(*NOW.tokens, replace(TOKEN, number=13, text="newer"))),
        replace(NOW, tokens=(replace(TOKEN, number=12 + KEPT_TOKENS, text="much newer", seen=12),)),
        with_marks(unfinished=0, next_lock=10, next_compaction=5),
        with_marks(starts={}),
        with_marks(starts={TxnId(30): 999}),
        with_marks(tables={}),
        with_marks(tables={7: TableMark(name="db.renamed", next_write_id=WriteId(5))}),
        with_marks(tables={8: TableMark(name="db.t", next_write_id=WriteId(1))}),
    ],
    ids=["same", "later", "much later", "counted on", "purged", "aged", "dropped", "renamed", "created again"],
)
def test_a_database_that_goes_on_agrees(now: Present) -> None:
    """PROTOCOL 11.2: rows of TXNS are purged, tables dropped, renamed and created again."""
    assert find_doubt([FILE], now, [FILE]) is None


@pytest.mark.parametrize(
    ("now", "said"),
    [
        (replace(NOW, newest=TxnId(29)), "newest transaction: 29 in the database, 30 remembered"),
        (with_marks(next_lock=8), "next lock: 8 in the database, 9 remembered"),
        (with_marks(next_compaction=3), "next compaction: 3 in the database, 4 remembered"),
        (
            with_marks(starts={TxnId(30): 1_001}),
            "start of transaction 30 (epoch ms): 1001 in the database, 1000 remembered",
        ),
        (
            with_marks(tables={7: TableMark(name="db.t2", next_write_id=WriteId(4))}),
            "next write ID of db.t2: 4 in the database, 5 remembered",
        ),
        (replace(NOW, tokens=NOW.tokens[1:]), "newest token: number 11 in the database, number 12 remembered"),
        (replace(NOW, tokens=()), "newest token: none in the database, number 12 remembered"),
        (
            replace(NOW, tokens=(replace(TOKEN, text="xyz"), NOW.tokens[1])),
            "token 12: xyz in the database, abc remembered",
        ),
    ],
)
def test_a_database_that_says_less_or_something_else_contradicts(now: Present, said: str) -> None:
    """PROTOCOL 11.2."""
    assert [str(one) for one in found(now)] == [said]


def test_files_that_the_database_knows_and_that_are_gone_contradict_once_every_client_lists_them() -> None:
    """PROTOCOL 11.2: a mount that is away, or a folder that was put back with the tables."""
    later = replace(NOW, now_ms=TOKEN.at + SETTLED_MS + 1)
    assert find_doubt((), replace(NOW, now_ms=TOKEN.at + SETTLED_MS), ()) is None
    gone = find_doubt((), later, ())
    assert gone is not None
    assert [str(one) for one in gone.contradictions] == [
        "newest file of marks: number 11 in the database, none remembered"
    ]
    assert (gone.remembered_at, gone.database_at, gone.transactions) == (None, 50_000, 0)
    older = Remembered(token=replace(TOKEN, number=3, text="old"), marks=Marks())
    assert [str(one) for one in found(later, older)] == [
        "newest file of marks: number 11 in the database, number 3 remembered"
    ]
    assert find_doubt((), replace(later, tokens=(replace(TOKEN, seen=0),)), ()) is None  # nobody has ever seen a file


def test_a_listing_from_before_a_long_pause_lacks_nothing_that_is_listed_now() -> None:
    """PROTOCOL 11.2: a process that slept between the two, while others went on."""
    later = replace(NOW, now_ms=TOKEN.at + SETTLED_MS + 1)
    older = Remembered(token=replace(TOKEN, number=3, text="old"), marks=Marks())
    assert lacks_files([older], later)
    assert not lacks_files([FILE], later)
    assert find_doubt([older], later, [FILE]) is None


def test_a_doubt_counts_by_how_much_the_database_is_behind() -> None:
    behind = replace(
        NOW,
        newest=TxnId(20),
        marks=replace(MARKS, tables={7: TableMark(name="db.t", next_write_id=WriteId(2))}),
        tokens=(replace(TOKEN, number=5, at=7),),
    )
    answer = find_doubt([FILE], behind, [FILE])
    assert answer is not None
    assert (answer.transactions, answer.write_ids) == (10, {"db.t": 3})
    assert (answer.remembered_at, answer.database_at) == (50_000, 7)
    assert answer.to_json()["contradictions"][0] == {
        "subject": "newest token",
        "database": "number 5",
        "remembered": "number 12",
    }


def test_of_two_files_with_one_number_each_is_compared() -> None:
    """PROTOCOL 11.2: two databases that were remembered in one place."""
    other = replace(FILE, token=replace(TOKEN, text="of another database"))
    assert [one.subject for one in found(NOW, FILE, other)] == ["token 12"]


@pytest.mark.parametrize(
    ("now", "changed"),
    [
        (NOW, False),
        (replace(NOW, now_ms=70_000, newest=TxnId(35)), False),
        (with_marks(starts={}), False),
        (with_marks(newest=TxnId(31)), True),
        (with_marks(unfinished=0), True),
        (with_marks(next_lock=10), True),
        (with_marks(next_compaction=5), True),
        (with_marks(tables={}), True),
        (with_marks(tables={7: TableMark(name="db.t", next_write_id=WriteId(6))}), True),
        (with_marks(tables={7: TableMark(name="db.renamed", next_write_id=WriteId(5))}), False),
    ],
)
def test_what_matters_has_changed(now: Present, changed: bool) -> None:
    assert has_changed(FILE, now) is changed
    assert has_changed(None, now)


def test_what_is_written_is_read_again() -> None:
    assert Remembered.from_json(json.loads(json.dumps(FILE.to_json()))) == replace(FILE, token=replace(TOKEN, seen=0))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"format": 2}, "format 2, of a later release"),
        ({"number": "many"}, "invalid literal"),
        ({"started": [1]}, "not the marks of a metastore"),
        ({"next_write_ids": None}, "not the marks of a metastore"),
        ({"next_lock": math.inf}, "not the marks of a metastore"),
    ],
)
def test_what_is_no_file_of_marks_is_named(change: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Remembered.from_json({**FILE.to_json(), **change})
    with pytest.raises(ValueError, match="not the marks of a metastore"):
        Remembered.from_json({})


def test_start_times_are_kept_in_small_number_and_reach_far_back() -> None:
    """PROTOCOL 11.2: a restore that is noticed late still meets a number that was given again."""
    kept: dict[TxnId, int] = {}
    for number in range(1, 1001):
        kept = thin_out({**kept, TxnId(number): number})
        assert len(kept) <= MAX_STARTS
    assert set(range(993, 1001)) <= set(kept)
    assert min(kept) == 1
    remembered = build_remembered(
        FILE, replace(TOKEN, number=13), replace(MARKS, newest=TxnId(40), starts={TxnId(40): 5}), "c1"
    )
    assert remembered.marks.starts == {TxnId(30): 1_000, TxnId(40): 5}


@pytest.mark.parametrize(
    ("tables", "claims"),
    [
        (TABLES, "c1a1"),
        (
            {7: replace(TABLES[7], name="db.renamed", next_write_id=WriteId(2)), 8: replace(TABLES[7], created=9)},
            "c1a1",
        ),
        ({7: replace(TABLES[7], created=1_700_000_001)}, None),
        ({7: replace(TABLES[7], created=0)}, None),
        ({8: TABLES[7]}, None),
        ({}, None),
    ],
)
def test_only_a_database_with_one_of_its_tables_gets_the_token_of_claims(
    tables: dict[int, TableMark], claims: str | None
) -> None:
    """PROTOCOL 11.13: another metastore has tables with the same ids and names."""
    assert remembered_claims((FILE,), replace(MARKS, tables=tables)) == claims
    unknown = replace(FILE, marks=replace(MARKS, tables={7: replace(TABLES[7], created=0)}))
    assert remembered_claims((unknown,), replace(MARKS, tables=unknown.marks.tables)) is None


def test_of_very_many_tables_those_written_most_are_kept() -> None:
    many = {
        number: TableMark(name=f"db.t{number}", next_write_id=WriteId(number % 7)) for number in range(MAX_TABLES + 9)
    }
    kept = keep_most_written(many)
    assert len(kept) == MAX_TABLES
    assert {mark.next_write_id for number, mark in many.items() if number not in kept} == {0}
    assert (
        has_changed(build_remembered(None, TOKEN, replace(MARKS, tables=many), "c1"), with_marks(tables=many)) is False
    )


@dataclass
class Database:
    """A metastore's database as far as marks are concerned. ``late`` was opened too slowly, and its client takes it back."""

    clock: int = 1_000
    txns: dict[int, tuple[str, int]] = field(default_factory=dict)
    last_txn: int = 0
    late: int | None = None
    tables: dict[int, tuple[str, int]] = field(default_factory=dict)
    last_table: int = 0
    lock: int = 1
    compaction: int = 1
    tokens: dict[int, MarkToken] = field(default_factory=dict)

    def marks(self, txns: Sequence[TxnId]) -> Marks:
        ended = max((txn for txn, (state, _) in self.txns.items() if state != "o"), default=0)
        return Marks(
            newest=TxnId(ended),
            unfinished=sum(state == "o" for state, _ in self.txns.values()),
            next_lock=self.lock,
            next_compaction=self.compaction,
            starts={TxnId(txn): self.txns[txn][1] for txn in (*txns, ended) if txn in self.txns},
            tables={
                number: TableMark(name=name, next_write_id=WriteId(following))
                for number, (name, following) in self.tables.items()
            },
        )

    def present(self, files: Sequence[Remembered]) -> Present:
        txns = [txn for file in files for txn in file.marks.starts]
        newest = TxnId(max(self.txns, default=0))
        tokens = tuple(self.tokens.values())
        return Present(now_ms=self.clock, newest=newest, marks=self.marks(txns), tokens=tokens)

    def mark(self, text: str, seen: int) -> MarkToken:
        number = 1 + max(self.tokens, default=0)
        self.tokens[number] = MarkToken(number=number, text=text, at=self.clock, seen=seen)
        self.tokens = {n: token for n, token in self.tokens.items() if n > number - KEPT_TOKENS}
        return self.tokens[number]

    def happen(self, what: int, which: int) -> None:
        """Lets one thing happen that Hive, its clients or Compactor do."""
        self.clock += 1 + 40_000 * (what % 3)
        events: tuple[Callable[[int], None], ...] = (
            self._open,
            self._end,
            self._open_late,
            self._take_back,
            self._purge,
            self._write,
            self._create,
            self._drop,
            self._rename,
            self._draw,
        )
        events[what % len(events)](which)

    def _open(self, which: int) -> None:
        self.last_txn += 1
        self.txns[self.last_txn] = ("o", self.clock)

    def _end(self, which: int) -> None:
        opened = [txn for txn, (state, _) in self.txns.items() if state == "o" and txn != self.late]
        if opened:
            txn = opened[which % len(opened)]
            self.txns[txn] = ("ca"[which % 2], self.txns[txn][1])

    def _open_late(self, which: int) -> None:
        if self.late is None:
            self._open(which)
            self.late = self.last_txn

    def _take_back(self, which: int) -> None:
        if self.late is not None:
            del self.txns[self.late]
            self.late = None

    def _purge(self, which: int) -> None:
        if self.late is None:  # it goes within moments, and the largest row is never purged
            self.txns = {n: row for n, row in self.txns.items() if row[0] == "o" or n == max(self.txns) or n % 2}

    def _write(self, which: int) -> None:
        if self.tables:
            number = sorted(self.tables)[which % len(self.tables)]
            name, following = self.tables[number]
            self.tables[number] = (name, following + 1)

    def _create(self, which: int) -> None:
        self.last_table += 1
        self.tables[self.last_table] = (f"db.t{which % 3}", 1)

    def _drop(self, which: int) -> None:
        if self.tables:
            del self.tables[sorted(self.tables)[which % len(self.tables)]]

    def _rename(self, which: int) -> None:
        if self.tables:
            number = sorted(self.tables)[which % len(self.tables)]
            self.tables[number] = (f"db.renamed{which}", self.tables[number][1])

    def _draw(self, which: int) -> None:
        self.lock += which % 3
        self.compaction += which % 2


def newest_of(files: Sequence[Remembered]) -> tuple[Remembered, ...]:
    newest = max((file.token.number for file in files), default=0)
    return tuple(file for file in files if file.token.number == newest)


@dataclass
class Process:
    """One pass after the other, each in four steps between which anything may happen."""

    name: int
    at: int = 0
    files: tuple[Remembered, ...] = ()
    written: Remembered | None = None

    def step(self, database: Database, files: list[Remembered]) -> None:
        if self.at == 0:
            self.files = newest_of(files)
        elif self.at == 1:
            assert find_doubt(self.files, database.present(self.files), newest_of(files)) is None
        elif self.at == 2:
            last = self.files[0] if self.files else None
            marks = database.marks([] if last is None else list(last.marks.starts))
            token = database.mark(f"{self.name}-{database.clock}", 0 if last is None else last.token.number)
            self.written = build_remembered(last, token, marks, "c1")
        elif self.written is not None:
            files.append(self.written)
        self.at = (self.at + 1) % 4

    def die(self) -> None:
        self.at, self.written = 0, None


def run(chance: random.Random, events: int, database: Database, files: list[Remembered]) -> None:
    """Lets three processes act, each alive or dying, and everybody else."""
    processes = [Process(f"{name}-{chance.random()}") for name in range(3)]
    for _ in range(events):
        who, what, which = (chance.randrange(10) for _ in range(3))
        if who < 5:
            processes[who % 3].step(database, files)
        elif who == 5 and which < 3:
            processes[which].die()
        else:
            database.happen(what, which)


@given(st.randoms(use_true_random=False), st.integers(0, 400))
def test_no_history_without_a_restore_contradicts(chance: random.Random, events: int) -> None:
    """PROTOCOL 11.2: whatever happens, in whichever order three processes read, write and die."""
    run(chance, events, Database(), [])


@given(st.randoms(use_true_random=False), st.integers(0, 100), st.integers(0, 100), st.integers(0, 100))
def test_every_restore_to_before_the_newest_file_contradicts(
    chance: random.Random, before: int, meanwhile: int, after: int
) -> None:
    """PROTOCOL 11.2: also once the counters have grown beyond what is remembered."""
    database, files = Database(), list[Remembered]()
    run(chance, before, database, files)
    backup = copy.deepcopy(database)
    known = len(files)
    run(chance, meanwhile, database, files)
    newest = newest_of(files)
    if len(files) == known or newest[0].token.number <= max(backup.tokens, default=0):
        return
    backup.clock = database.clock
    for _ in range(after):
        backup.happen(chance.randrange(10), chance.randrange(10))
    assert find_doubt(newest, backup.present(newest), newest) is not None

"""Marks of a metastore that only ever grow, and the proof that its database was put back from an older copy (PROTOCOL 11.2).

Marks are remembered outside of the database. Each time, a number and a random token are written to both sides, the database
first: a database that lacks the newest token remembered is an older copy, whatever its counters say by now. Nothing here
depends on when a process dies between the two writes, since the database may always be ahead.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from compactor.base.ids import TxnId, WriteId

KEPT_TOKENS = 32  #: in the database: as many updates of other processes may come between a token and its file
MAX_STARTS = 16  #: transactions whose start time is remembered
MAX_TABLES = 20_000  #: tables whose next write ID is remembered: those with the most write IDs
SETTLED_MS = (
    120_000  #: after this time every client lists a new file, also where directories are cached (NFS: a minute)
)
_FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkToken:
    """The mark that one update wrote to both sides. ``at`` is the database's time in epoch ms.

    ``seen`` is the largest number that the writer had found outside of the database, 0 without one.
    """

    number: int
    text: str
    at: int
    seen: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TableMark:
    """A table's name, as ``database.table``, its next write ID, and when it was created (epoch s, 0 if nobody knows)."""

    name: str
    next_write_id: WriteId
    created: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """Numbers of a metastore. All but ``unfinished`` only grow.

    ``newest`` is the newest transaction that has ended: a client that was too slow takes back one that it has just opened.
    ``unfinished`` counts the open ones: together with ``newest`` it changes whenever a transaction ends. ``starts`` has
    start times (epoch ms), ``tables`` next write IDs by table id.
    """

    newest: TxnId = TxnId(0)
    unfinished: int = 0
    next_lock: int = 0
    next_compaction: int = 0
    starts: Mapping[TxnId, int] = field(default_factory=dict)
    tables: Mapping[int, TableMark] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembered:
    """The content of one file outside of the database. ``claims`` is the token of claims on directories, if there is one."""

    token: MarkToken
    marks: Marks
    claims: str | None = None

    def to_json(self) -> dict[str, Any]:
        token, marks = self.token, self.marks
        return {
            "format": _FORMAT,
            "number": token.number,
            "token": token.text,
            "at": token.at,
            "claims": self.claims,
            "newest_transaction": marks.newest,
            "open_transactions": marks.unfinished,
            "next_lock": marks.next_lock,
            "next_compaction": marks.next_compaction,
            "started": [[txn, started] for txn, started in sorted(marks.starts.items())],
            "next_write_ids": [
                [number, one.name, one.next_write_id, one.created] for number, one in sorted(marks.tables.items())
            ],
        }

    @classmethod
    def of_json(cls, found: Mapping[str, Any]) -> Remembered:
        """Returns what ``to_json`` made.

        Raises:
            ValueError: it is something else, or of a later release.
        """
        try:
            if found["format"] != _FORMAT:
                raise ValueError(f"format {found['format']!r}, of a later release; wanted is {_FORMAT}")
            marks = Marks(
                newest=TxnId(int(found["newest_transaction"])),
                unfinished=int(found["open_transactions"]),
                next_lock=int(found["next_lock"]),
                next_compaction=int(found["next_compaction"]),
                starts={TxnId(int(txn)): int(started) for txn, started in found["started"]},
                tables={
                    int(number): TableMark(name=str(name), next_write_id=WriteId(int(following)), created=int(created))
                    for number, name, following, created in found["next_write_ids"]
                },
            )
            token = MarkToken(number=int(found["number"]), text=str(found["token"]), at=int(found["at"]))
            claims = None if found["claims"] is None else str(found["claims"])
        except (KeyError, TypeError, OverflowError) as error:
            raise ValueError(f"not the marks of a metastore ({type(error).__name__}: {error})") from error
        return cls(token=token, marks=marks, claims=claims)


@dataclass(frozen=True, slots=True, kw_only=True)
class Present:
    """The database as it is now, read at one instant after the files were.

    ``newest`` is the newest transaction of any state, ``tokens`` are the newest ones.
    """

    now_ms: int
    newest: TxnId
    marks: Marks
    tokens: tuple[MarkToken, ...] = ()

    @property
    def newest_token(self) -> MarkToken | None:
        return max(self.tokens, key=lambda token: token.number, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Contradiction:
    """One value of which the database says less, or something else, than is remembered. Both are texts for people."""

    subject: str
    database: str
    remembered: str

    def __str__(self) -> str:
        return f"{self.subject}: {self.database} in the database, {self.remembered} remembered"

    def to_json(self) -> dict[str, str]:
        return {"subject": self.subject, "database": self.database, "remembered": self.remembered}


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """The contradictions between the two sides, and by how much the database is behind.

    ``remembered_at`` is None where nothing is left to read, ``database_at`` where the database has no token; both are epoch
    ms.
    """

    contradictions: tuple[Contradiction, ...]
    transactions: int = 0
    write_ids: Mapping[str, int] = field(default_factory=dict)
    remembered_at: int | None = None
    database_at: int | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "contradictions": [one.to_json() for one in self.contradictions],
            "transactions_behind": self.transactions,
            "write_ids_behind": dict(self.write_ids),
            "remembered_at": self.remembered_at,
            "database_at": self.database_at,
        }


def doubt(before: Iterable[Remembered], now: Present, after: Iterable[Remembered]) -> Doubt | None:
    """Returns the doubt whether the database is the newest one; None without a contradiction.

    Args:
        before: the files with the largest number, read before the database: none before the first update, more than one
            if two databases were remembered in one place.
        now: the database, with the start times of all transactions remembered.
        after: the files again, read after the database; ``before`` will do where it lacks none (``lacks_files``).
    """
    files, later = tuple(before), tuple(after)
    found = [*_lost(later, now), *(one for file in files for one in _contradicting(file, now))]
    if not found:
        return None
    newest = now.newest_token
    return Doubt(
        contradictions=tuple(dict.fromkeys(found)),
        transactions=max([0, *(file.marks.newest - now.newest for file in files)]),
        write_ids={name: count for file in files for name, count in _write_ids_behind(file, now)},
        remembered_at=max((file.token.at for file in files), default=None),
        database_at=None if newest is None else newest.at,
    )


def lacks_files(files: Iterable[Remembered], now: Present) -> bool:
    """Returns true if the database knows of a newer file, which may have been written since ``files`` were listed."""
    return _largest(files) < _seen(now)


def lacks_token(files: Iterable[Remembered], tokens: Iterable[MarkToken]) -> bool:
    """Returns true if ``tokens``, the newest ones of the database, lack the token of a file that was read before them."""
    now = Present(now_ms=0, newest=TxnId(0), marks=Marks(), tokens=tuple(tokens))
    return any(True for file in files for _ in _of_token(file.token, now))


def _lost(files: tuple[Remembered, ...], now: Present) -> Iterator[Contradiction]:
    """Yields a contradiction if the database knows that more was remembered than is there: its place is not mounted, was
    emptied, or was put back itself."""
    if lacks_files(files, now):
        yield Contradiction(
            subject="newest file of marks",
            database=f"number {_seen(now)}",
            remembered=f"number {_largest(files)}" if files else "none",
        )


def _largest(files: Iterable[Remembered]) -> int:
    return max((file.token.number for file in files), default=0)


def _seen(now: Present) -> int:
    return max((token.seen for token in now.tokens if token.at < now.now_ms - SETTLED_MS), default=0)


def _contradicting(file: Remembered, now: Present) -> Iterator[Contradiction]:
    yield from _of_token(file.token, now)
    marks, there = file.marks, now.marks
    for subject, database, remembered in (
        ("newest transaction", now.newest, marks.newest),
        ("next lock", there.next_lock, marks.next_lock),
        ("next compaction", there.next_compaction, marks.next_compaction),
    ):
        if database < remembered:
            yield Contradiction(subject=subject, database=str(database), remembered=str(remembered))
    for txn, started in marks.starts.items():
        # a number that is given again is given later
        if there.starts.get(txn, 0) > started:
            yield Contradiction(
                subject=f"start of transaction {txn} (epoch ms)",
                database=str(there.starts[txn]),
                remembered=str(started),
            )
    for number, mark in marks.tables.items():
        table = there.tables.get(number)  # without one it was dropped, or is about to have another name
        if table is not None and table.next_write_id < mark.next_write_id:
            yield Contradiction(
                subject=f"next write ID of {table.name}",
                database=str(table.next_write_id),
                remembered=str(mark.next_write_id),
            )


def _of_token(token: MarkToken, now: Present) -> Iterator[Contradiction]:
    known = {one.number: one.text for one in now.tokens}
    newest = max(known, default=0)
    if token.number > newest:
        yield Contradiction(
            subject="newest token",
            database=f"number {newest}" if known else "none",
            remembered=f"number {token.number}",
        )
    elif known.get(token.number, token.text) != token.text:
        yield Contradiction(subject=f"token {token.number}", database=known[token.number], remembered=token.text)


def _write_ids_behind(file: Remembered, now: Present) -> Iterator[tuple[str, int]]:
    for number, mark in file.marks.tables.items():
        table = now.marks.tables.get(number)
        if table is not None and table.next_write_id < mark.next_write_id:
            yield table.name, mark.next_write_id - table.next_write_id


def has_changed(remembered: Remembered | None, now: Present) -> bool:
    """Returns true if anything that matters has changed since, or nothing is remembered."""
    return remembered is None or _figures(remembered.marks) != _figures(now.marks)


def _figures(marks: Marks) -> tuple[object, ...]:
    tables = {number: mark.next_write_id for number, mark in most_written(marks.tables).items()}
    return marks.newest, marks.unfinished, marks.next_lock, marks.next_compaction, tables


def remembered_claims(files: Iterable[Remembered], marks: Marks) -> str | None:
    """Returns the token of claims of the metastore that was put back; None if none is remembered.

    The database of ``marks`` is that metastore's if a remembered table is there, with its id and the time at which it was
    created. Another metastore's database, put in its place, would take the claims of tables with the same ids for its own.
    """
    for file in files:
        for number, mark in file.marks.tables.items():
            table = marks.tables.get(number)
            if table is not None and table.created == mark.created > 0:
                return file.claims
    return None


def to_remember(before: Remembered | None, token: MarkToken, marks: Marks, claims: str) -> Remembered:
    """Returns what is remembered from now on.

    Args:
        token: written to the database in the transaction that read ``marks``.
        before: what was remembered until now: its start times are kept on, so that a restore that is noticed late still
            meets one of a transaction whose number was given again.
        claims: the token of claims.
    """
    starts = marks.starts if before is None else {**before.marks.starts, **marks.starts}
    return Remembered(
        token=token,
        marks=Marks(
            newest=marks.newest,
            unfinished=marks.unfinished,
            next_lock=marks.next_lock,
            next_compaction=marks.next_compaction,
            starts=spread(starts),
            tables=most_written(marks.tables),
        ),
        claims=claims,
    )


def spread(starts: Mapping[TxnId, int]) -> dict[TxnId, int]:
    """Returns at most ``MAX_STARTS`` of ``starts``: the newest half, and of the older ones every other one."""
    chosen = dict(sorted(starts.items()))
    while len(chosen) > MAX_STARTS:
        numbers = list(chosen)
        older = numbers[: -MAX_STARTS // 2]
        for number in older[1::2] or older[-1:]:
            del chosen[number]
    return chosen


def most_written(tables: Mapping[int, TableMark]) -> Mapping[int, TableMark]:
    """Returns at most ``MAX_TABLES`` of ``tables``, those with the most write IDs."""
    if len(tables) <= MAX_TABLES:
        return tables
    chosen = sorted(tables.items(), key=lambda item: (-item[1].next_write_id, item[0]))
    return dict(chosen[:MAX_TABLES])

"""Compares a metastore's marks to detect a database restored from an older copy (PROTOCOL 11.2).

Marks are numbers that only grow.

Marks are remembered outside of the database. Each update writes a number and a random token to both sides, to the database
first. A database that lacks the newest remembered token is an older copy, whatever its counters say. A process may die
between the two writes: the database may always be ahead.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from compactor.base.ids import TxnId, WriteId

KEPT_TOKENS = (
    32  #: in the database: the number of updates by other processes that may come between a token and its file
)
MAX_STARTS = 16  #: transactions whose start time is remembered
MAX_TABLES = 20_000  #: tables whose next write ID is remembered: those with the most write IDs
SETTLED_MS = (
    120_000  #: after this time every client lists a new file, also where directories are cached (NFS: a minute)
)
_FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkToken:
    """The token that one update writes to both sides. ``at`` is the database's time in epoch ms.

    ``seen`` is the largest number that the writer found outside of the database, 0 without one.
    """

    number: int
    text: str
    at: int
    seen: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TableMark:
    """A table's name, its next write ID, and its time of creation.

    The name is ``database.table``, the time epoch s, 0 if unknown.
    """

    name: str
    next_write_id: WriteId
    created: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """Numbers of a metastore. All but ``unfinished`` only grow.

    ``newest`` is the newest transaction that has ended; open ones do not count, since a client may take back one that it
    has just opened. ``unfinished`` counts the open ones: together with ``newest`` it changes whenever a transaction ends.
    ``starts`` has start times (epoch ms), ``tables`` next write IDs by table id.
    """

    newest: TxnId = TxnId(0)
    unfinished: int = 0
    next_lock: int = 0
    next_compaction: int = 0
    starts: Mapping[TxnId, int] = field(default_factory=dict)
    tables: Mapping[int, TableMark] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembered:
    """The content of one file outside of the database.

    ``claims`` is the token of claims on directories, if any.
    """

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
                [number, table.name, table.next_write_id, table.created]
                for number, table in sorted(marks.tables.items())
            ],
        }

    @classmethod
    def from_json(cls, json: Mapping[str, Any]) -> Remembered:
        """Parses the result of ``to_json``.

        Raises:
            ValueError: it is something else, or of a later release.
        """
        try:
            if json["format"] != _FORMAT:
                raise ValueError(f"format {json['format']!r}, of a later release; expected: {_FORMAT}")
            marks = Marks(
                newest=TxnId(int(json["newest_transaction"])),
                unfinished=int(json["open_transactions"]),
                next_lock=int(json["next_lock"]),
                next_compaction=int(json["next_compaction"]),
                starts={TxnId(int(txn)): int(started) for txn, started in json["started"]},
                tables={
                    int(number): TableMark(name=str(name), next_write_id=WriteId(int(following)), created=int(created))
                    for number, name, following, created in json["next_write_ids"]
                },
            )
            token = MarkToken(number=int(json["number"]), text=str(json["token"]), at=int(json["at"]))
            claims = None if json["claims"] is None else str(json["claims"])
        except (KeyError, TypeError, OverflowError) as error:
            raise ValueError(f"not the marks of a metastore ({type(error).__name__}: {error})") from error
        return cls(token=token, marks=marks, claims=claims)


@dataclass(frozen=True, slots=True, kw_only=True)
class Present:
    """The database as it is now, read at one instant after the files.

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
    """One value that is smaller in the database than remembered, or different. Both are texts for people."""

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

    ``remembered_at`` (epoch ms) is None if no file can be read, ``database_at`` (epoch ms) if the database has no token.
    """

    contradictions: tuple[Contradiction, ...]
    transactions: int = 0
    write_ids: Mapping[str, int] = field(default_factory=dict)
    remembered_at: int | None = None
    database_at: int | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "contradictions": [contradiction.to_json() for contradiction in self.contradictions],
            "transactions_behind": self.transactions,
            "write_ids_behind": dict(self.write_ids),
            "remembered_at": self.remembered_at,
            "database_at": self.database_at,
        }


def find_doubt(before: Iterable[Remembered], now: Present, after: Iterable[Remembered]) -> Doubt | None:
    """Compares the database with the files; returns None without a contradiction.

    Args:
        before: the files with the largest number, read before the database. There are none before the first update, and
            several if two databases share one place.
        now: the database, with the start times of all remembered transactions.
        after: the files, read once more after the database; the same as ``before`` unless ``lacks_files``.
    """
    files, later = tuple(before), tuple(after)
    contradictions = [
        *_check_lost_files(later, now),
        *(contradiction for file in files for contradiction in _check_file(file, now)),
    ]
    if not contradictions:
        return None
    newest = now.newest_token
    return Doubt(
        contradictions=tuple(dict.fromkeys(contradictions)),
        transactions=max([0, *(file.marks.newest - now.newest for file in files)]),
        write_ids={name: count for file in files for name, count in _count_write_ids_behind(file, now)},
        remembered_at=max((file.token.at for file in files), default=None),
        database_at=None if newest is None else newest.at,
    )


def lacks_files(files: Iterable[Remembered], now: Present) -> bool:
    """Returns true if the database knows a newer file than ``files``.

    It may have been written since they were listed.
    """
    return _largest_number(files) < _largest_seen(now)


def lacks_token(files: Iterable[Remembered], tokens: Iterable[MarkToken]) -> bool:
    """Returns true if the newest tokens of the database lack that of a file which was read before them."""
    now = Present(now_ms=0, newest=TxnId(0), marks=Marks(), tokens=tuple(tokens))
    return any(True for file in files for _ in _check_token(file.token, now))


def _check_lost_files(files: tuple[Remembered, ...], now: Present) -> Iterator[Contradiction]:
    """Yields a contradiction if the database knows a newer file than exists.

    Then the files' place is not mounted, was emptied, or was itself restored.
    """
    if lacks_files(files, now):
        yield Contradiction(
            subject="newest file of marks",
            database=f"number {_largest_seen(now)}",
            remembered=f"number {_largest_number(files)}" if files else "none",
        )


def _largest_number(files: Iterable[Remembered]) -> int:
    return max((file.token.number for file in files), default=0)


def _largest_seen(now: Present) -> int:
    return max((token.seen for token in now.tokens if token.at < now.now_ms - SETTLED_MS), default=0)


def _check_file(file: Remembered, now: Present) -> Iterator[Contradiction]:
    yield from _check_token(file.token, now)
    marks, there = file.marks, now.marks
    for subject, database, remembered in (
        ("newest transaction", now.newest, marks.newest),
        ("next lock", there.next_lock, marks.next_lock),
        ("next compaction", there.next_compaction, marks.next_compaction),
    ):
        if database < remembered:
            yield Contradiction(subject=subject, database=str(database), remembered=str(remembered))
    for txn, started in marks.starts.items():
        # a number that is allocated again starts later
        if there.starts.get(txn, 0) > started:
            yield Contradiction(
                subject=f"start of transaction {txn} (epoch ms)",
                database=str(there.starts[txn]),
                remembered=str(started),
            )
    for number, mark in marks.tables.items():
        table = there.tables.get(number)  # a dropped table has none; a renamed one has another name
        if table is not None and table.next_write_id < mark.next_write_id:
            yield Contradiction(
                subject=f"next write ID of {table.name}",
                database=str(table.next_write_id),
                remembered=str(mark.next_write_id),
            )


def _check_token(token: MarkToken, now: Present) -> Iterator[Contradiction]:
    known = {other.number: other.text for other in now.tokens}
    newest = max(known, default=0)
    if token.number > newest:
        yield Contradiction(
            subject="newest token",
            database=f"number {newest}" if known else "none",
            remembered=f"number {token.number}",
        )
    elif known.get(token.number, token.text) != token.text:
        yield Contradiction(subject=f"token {token.number}", database=known[token.number], remembered=token.text)


def _count_write_ids_behind(file: Remembered, now: Present) -> Iterator[tuple[str, int]]:
    for number, mark in file.marks.tables.items():
        table = now.marks.tables.get(number)
        if table is not None and table.next_write_id < mark.next_write_id:
            yield table.name, mark.next_write_id - table.next_write_id


def has_changed(remembered: Remembered | None, now: Present) -> bool:
    """Returns true if a relevant mark has changed since, or nothing is remembered."""
    return remembered is None or _compared_figures(remembered.marks) != _compared_figures(now.marks)


def _compared_figures(marks: Marks) -> tuple[object, ...]:
    tables = {number: mark.next_write_id for number, mark in keep_most_written(marks.tables).items()}
    return marks.newest, marks.unfinished, marks.next_lock, marks.next_compaction, tables


def remembered_claims(files: Iterable[Remembered], marks: Marks) -> str | None:
    """Returns the remembered token of claims if it belongs to this metastore; None otherwise.

    It does if a remembered table still exists with the same id and time of creation. Otherwise another metastore's database
    was put in its place, which must not take over the claims of tables with the same ids.
    """
    for file in files:
        for number, mark in file.marks.tables.items():
            table = marks.tables.get(number)
            if table is not None and table.created == mark.created > 0:
                return file.claims
    return None


def build_remembered(before: Remembered | None, token: MarkToken, marks: Marks, claims: str) -> Remembered:
    """Returns the content of the next file.

    Args:
        token: written to the database in the transaction that read ``marks``.
        before: the previous content. Its start times are kept, so that a restore that is noticed late still meets the
            start of a transaction whose number was allocated again.
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
            starts=thin_out(starts),
            tables=keep_most_written(marks.tables),
        ),
        claims=claims,
    )


def thin_out(starts: Mapping[TxnId, int]) -> dict[TxnId, int]:
    """Keeps at most ``MAX_STARTS`` of ``starts``: the newest half, and every second of the older ones."""
    chosen = dict(sorted(starts.items()))
    while len(chosen) > MAX_STARTS:
        numbers = list(chosen)
        older = numbers[: -MAX_STARTS // 2]
        for number in older[1::2] or older[-1:]:
            del chosen[number]
    return chosen


def keep_most_written(tables: Mapping[int, TableMark]) -> Mapping[int, TableMark]:
    """Returns at most ``MAX_TABLES`` of ``tables``, those with the most write IDs."""
    if len(tables) <= MAX_TABLES:
        return tables
    chosen = sorted(tables.items(), key=lambda item: (-item[1].next_write_id, item[0]))
    return dict(chosen[:MAX_TABLES])

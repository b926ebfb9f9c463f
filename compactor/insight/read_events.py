"""Reads what other programs tell of the queries that they ran: Trino's HTTP event listener, HiveServer2's query history
(HIVE-28095), and plain records. Pure: strangers' texts in, checked values out; no query's text and no person's name is kept.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from compactor.base.errors import BadFile
from compactor.base.utc import utc_text
from compactor.insight.query_text import likeness

MOST_BYTES = 4_000_000  #: of one event; Trino's hold plans and statistics of every operator
_MOST_TABLES, _MOST_NAME, _MOST_ID, _MOST_ENGINE = 200, 256, 400, 32
_MOST_SHOWN = 200  #: characters of a stranger's value in a message
_LARGEST = 2**53
_DURATION = re.compile(r"PT(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?\Z")
_FINISHED = "FINISHED"


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A query that has ended at ``at`` (epoch ms): the tables that it read, its wall time, and files (splits, tasks) and
    bytes that it scanned, None where its engine does not say. ``like`` is shared by like queries."""

    engine: str
    id: str
    tables: tuple[tuple[str, str], ...]
    like: str
    at: int
    seconds: float
    files: int | None = None
    bytes: int | None = None


def queries_of(lines: Iterable[str], what: str, *, latest: int = _LARGEST) -> Iterator[Query | None]:
    """Yields the query of each event in ``lines``; None for an event of something else, such as a query that failed or reads
    no table. Each line is one event or an array of them; so may all lines be together.

    Args:
        latest: the time (epoch ms) after which no query can have ended.

    Raises:
        BadFile: ``what`` is no JSON, or an event lacks something or holds what cannot be.
    """
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        where = f"{what}, line {number}"
        if len(line) > MOST_BYTES:
            raise BadFile(f"{where}: {len(line)} characters; wanted: {MOST_BYTES} at most for each event")
        try:
            found = json.loads(line, parse_constant=_no_number)
        except (ValueError, RecursionError) as error:
            raise BadFile(f"{where}: no JSON ({error}); wanted: one event a line, or an array of events") from error
        for event in found if isinstance(found, list) else [found]:
            query = _query(event, where)
            if query is not None and query.at > latest:
                raise BadFile(f"{where}: the query ended at {utc_text(query.at)}, which is yet to come")
            yield query


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is no number of JSON")


def _query(event: object, where: str) -> Query | None:
    if not isinstance(event, dict):
        raise BadFile(f"{where}: {_short(event)}; wanted: an object")
    for marks, read in _KINDS:
        if marks <= event.keys():
            try:
                return read(event)
            except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as error:
                raise BadFile(
                    f"{where}: {type(error).__name__}: {_short(error)}; it is not as its engine writes it"
                ) from error
    raise BadFile(
        f"{where}: an object with {_short(', '.join(sorted(map(str, event))))}; wanted: an event of Trino, a row of Hive's "
        "query history, or engine, id, tables, at and seconds"
    )


def _trino(event: Mapping[str, Any]) -> Query | None:
    """``QueryCompletedEvent`` of Trino's SPI; what began only, and a split, has no statistics of a query."""
    metadata, statistics = event["metadata"], event.get("statistics")
    if not isinstance(statistics, dict) or metadata.get("queryState") != _FINISHED:
        return None
    inputs = (event.get("ioMetadata") or {}).get("inputs") or ()
    tables = _tables((one.get("schema"), one.get("table")) for one in inputs)
    return _made(
        engine="trino",
        id=metadata["queryId"],
        sql=metadata["query"],
        tables=tables,
        at=_moment(event["endTime"]),
        seconds=_seconds(statistics["wallTime"]),
        files=statistics.get("completedSplits"),
        size=statistics.get("physicalInputBytes"),
    )


def _hive(event: Mapping[str, Any]) -> Query | None:
    """A row of ``sys.query_history``; its columns are those of ``ql.queryhistory.schema``."""
    if event.get("query_state") != _FINISHED:
        return None
    used = (name.strip().partition("@") for name in (event["used_tables"] or "").split(","))
    pairs = (tuple((head if not at else f"{head}.{tail}").split(".")[-2:]) for head, at, tail in used if head)
    return _made(
        engine="hive",
        id=event["query_id"],
        sql=event["sql"],
        tables=_tables(pair if len(pair) == 2 else (event.get("db_name"), pair[0]) for pair in pairs),
        at=_moment(event.get("end_time_utc") or event["end_time"]),
        seconds=int(event["total_time_ms"]) / 1000,
        files=_counted(event.get("total_tasks")),
        size=_counted(event.get("input_split_length_bytes")),
    )


def _plain(event: Mapping[str, Any]) -> Query | None:
    """A record of whatever else reads, such as our own scans: ``tables`` are names ``database.table``."""
    return _made(
        engine=event["engine"],
        id=event["id"],
        sql=event.get("sql") or "",
        tables=_tables(name.split(".", 1) for name in event["tables"]),
        at=_moment(event["at"]),
        seconds=_seconds(event["seconds"]),
        files=event.get("files"),
        size=event.get("bytes"),
    )


_Read = Callable[[Mapping[str, Any]], Query | None]
_KINDS: tuple[tuple[frozenset[str], _Read], ...] = (
    (frozenset({"metadata", "context"}), _trino),
    (frozenset({"query_id", "used_tables"}), _hive),
    (frozenset({"engine", "id", "tables"}), _plain),
)


def _made(
    *,
    engine: object,
    id: object,
    sql: object,
    tables: tuple[tuple[str, str], ...],
    at: int,
    seconds: float,
    files: Any,
    size: Any,
) -> Query | None:
    if not tables:
        return None
    if not isinstance(sql, str):
        raise ValueError(f"the query's text is {_short(sql)}; wanted: a text")
    if not 0 <= seconds < _LARGEST or not 0 <= at < _LARGEST:
        raise ValueError(f"{seconds} s at {at}")
    like = likeness(sql, tables, quotes_are_text=engine == "hive")
    return Query(
        engine=_name(engine, "the engine", _MOST_ENGINE),
        id=_name(id, "the query's id", _MOST_ID),
        tables=tables,
        like=like,
        at=at,
        seconds=seconds,
        files=_number(files),
        bytes=_number(size),
    )


def _tables(names: Iterable[Any]) -> tuple[tuple[str, str], ...]:
    """Returns pairs of database and table, each once, in order."""
    found: dict[tuple[str, str], None] = {}
    for database, table in names:
        pair = (
            _name(database, "a database's name", _MOST_NAME).lower(),
            _name(table, "a table's name", _MOST_NAME).lower(),
        )
        found[pair] = None
    if len(found) > _MOST_TABLES:
        raise ValueError(f"{len(found)} tables; wanted: {_MOST_TABLES} at most")
    return tuple(sorted(found))


def _name(value: object, what: str, most: int) -> str:
    """Returns ``value`` if it is a text that every database can hold and that a person can read.

    Raises:
        ValueError: it is not.
    """
    if not isinstance(value, str) or not 0 < len(value) <= most or not value.isprintable():
        raise ValueError(f"{what} is {ascii(value)[:60]}; wanted: 1 to {most} printable characters")
    return value


def _counted(value: Any) -> Any:
    """Returns a counter of Hive's; -1 stands for what does not apply."""
    return None if value is None or int(value) < 0 else int(value)


def _number(value: Any) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < _LARGEST:
        raise ValueError(f"{_short(value)} is no number of files or bytes")
    return value


def _moment(value: Any) -> int:
    """Returns a time in epoch ms: of a text of ISO 8601 or of Hive's, in UTC unless it says otherwise, or of seconds."""
    if isinstance(value, str):
        read = datetime.fromisoformat(_within_microseconds(value.strip()))
        return round((read if read.tzinfo else read.replace(tzinfo=UTC)).timestamp() * 1000)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{_short(value)} is no time")
    return round(value * 1000) if value < 1e11 else round(value)  # in milliseconds after all


def _within_microseconds(text: str) -> str:
    return re.sub(r"(\.\d{6})\d+", r"\1", text)


def _seconds(value: Any) -> float:
    """Returns a duration: seconds, or a text of ISO 8601."""
    if isinstance(value, str) and (read := _DURATION.match(value)):
        hours, minutes, seconds = (float(part or 0) for part in read.groups())
        return 3600 * hours + 60 * minutes + seconds
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{_short(value)} is no duration")
    return float(value)


def _short(value: object) -> str:
    return str(value)[:_MOST_SHOWN]

"""Reads the events of queries that other programs ran.

Formats are those of Trino's HTTP event listener and of HiveServer2's query history (HIVE-28095), and plain records. Pure:
takes untrusted texts and returns checked values. It keeps neither a query's text nor a user's name.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from compactor.base.errors import BadFile
from compactor.base.utc import utc_text

MOST_BYTES = 4_000_000  #: of one event; Trino's contain plans and statistics of every operator
_MOST_TABLES, _MOST_NAME, _MOST_ID, _MOST_ENGINE = 200, 256, 400, 32
_MOST_SHOWN = 200  #: characters of an untrusted value in a message
_LARGEST = 2**53
_DURATION = re.compile(r"PT(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?\Z")
_FINISHED = "FINISHED"
MOST_TEXT = 100_000  #: characters that are compared; the rest of a query does not count
_SIZE = 16  #: bytes of a digest
#: An unclosed quote or comment lasts to the end of the text, so that matching takes linear time.
_PARTS = re.compile(
    r"""(?P<text>'(?:[^'\\]|\\.|'')*(?:'|\Z))
      | (?P<quoted>"(?:[^"\\]|\\.|"")*(?:"|\Z))
      | (?P<name>`[^`]*(?:`|\Z))
      | (?P<blank>--[^\n]*|/\*(?:.*?\*/|.*\Z)|\s+)
      | (?P<number>\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)
      | (?P<word>\w+)
      | (?P<sign>.)""",
    re.VERBOSE | re.DOTALL,
)
_CONSTANT = "?"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadQuery:
    """A query that ended at ``at`` (epoch ms), with the tables that it read and its wall time.

    ``files`` (splits or tasks) and ``bytes`` were scanned; None if its engine does not report them. Like queries share
    ``like``.
    """

    engine: str
    id: str
    tables: tuple[tuple[str, str], ...]
    like: str
    at: int
    seconds: float
    files: int | None = None
    bytes: int | None = None


def parse_queries(lines: Iterable[str], what: str, *, latest: int = _LARGEST) -> Iterator[ReadQuery | None]:
    """Yields the query of each event in ``lines``; None for other events, such as failed queries.

    Each line is one event or an array of events. A query that reads no table also yields None.

    Args:
        latest: queries cannot have ended after this time (epoch ms).

    Raises:
        BadFile: ``what`` is not JSON, or an event lacks a value or has an impossible one.
    """
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        where = f"{what}, line {number}"
        if len(line) > MOST_BYTES:
            raise BadFile(f"{where}: {len(line)} characters; expected: at most {MOST_BYTES} for each event")
        try:
            document = json.loads(line, parse_constant=_refuse_constant)
        except (ValueError, RecursionError) as error:
            raise BadFile(f"{where}: not JSON ({error}); expected: one event a line, or an array of events") from error
        for event in document if isinstance(document, list) else [document]:
            query = _parse_event(event, where)
            if query is not None and query.at > latest:
                raise BadFile(f"{where}: the query ended at {utc_text(query.at)}, which is in the future")
            yield query


def _refuse_constant(text: str) -> float:
    raise ValueError(f"{text} is not a number of JSON")


def _parse_event(event: object, where: str) -> ReadQuery | None:
    if not isinstance(event, dict):
        raise BadFile(f"{where}: {_shorten(event)}; expected: an object")
    for keys, read in _KINDS:
        if keys <= event.keys():
            try:
                return read(event)
            except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as error:
                raise BadFile(
                    f"{where}: {type(error).__name__}: {_shorten(error)}; its engine does not write such events"
                ) from error
    raise BadFile(
        f"{where}: an object with {_shorten(', '.join(sorted(map(str, event))))}; expected: an event of Trino, "
        "a row of Hive's query history, or engine, id, tables, at and seconds"
    )


def _read_trino(event: Mapping[str, Any]) -> ReadQuery | None:
    """Reads ``QueryCompletedEvent`` of Trino's SPI.

    Events of begun queries and of splits have no statistics.
    """
    metadata, statistics = event["metadata"], event.get("statistics")
    if not isinstance(statistics, dict) or metadata.get("queryState") != _FINISHED:
        return None
    io_metadata = {} if event.get("ioMetadata") is None else event["ioMetadata"]
    inputs = _check_list(io_metadata.get("inputs"), "the query's inputs")
    tables = _check_tables((table_input.get("schema"), table_input.get("table")) for table_input in inputs)
    return _build_query(
        engine="trino",
        id=metadata["queryId"],
        sql=metadata["query"],
        tables=tables,
        at=_parse_time(event["endTime"]),
        seconds=_parse_duration(statistics["wallTime"]),
        files=statistics.get("completedSplits"),
        size=statistics.get("physicalInputBytes"),
    )


def _read_hive(event: Mapping[str, Any]) -> ReadQuery | None:
    """Reads a row of ``sys.query_history``, with the columns of ``ql.queryhistory.schema``."""
    if event.get("query_state") != _FINISHED:
        return None
    used = (name.strip().partition("@") for name in (event["used_tables"] or "").split(","))
    pairs = (tuple((head if not at else f"{head}.{tail}").split(".")[-2:]) for head, at, tail in used if head)
    return _build_query(
        engine="hive",
        id=event["query_id"],
        sql=event["sql"],
        tables=_check_tables(pair if len(pair) == 2 else (event.get("db_name"), pair[0]) for pair in pairs),
        at=_parse_time(event.get("end_time_utc") or event["end_time"]),
        seconds=int(event["total_time_ms"]) / 1000,
        files=_parse_counter(event.get("total_tasks")),
        size=_parse_counter(event.get("input_split_length_bytes")),
    )


def _read_plain(event: Mapping[str, Any]) -> ReadQuery | None:
    """Reads a record of any other reader, such as our own scans.

    ``tables`` are names such as ``sales.orders``.
    """
    return _build_query(
        engine=event["engine"],
        id=event["id"],
        sql="" if event.get("sql") is None else event["sql"],
        tables=_check_tables(name.split(".", 1) for name in _check_list(event["tables"], "the query's tables")),
        at=_parse_time(event["at"]),
        seconds=_parse_duration(event["seconds"]),
        files=event.get("files"),
        size=event.get("bytes"),
    )


_Read = Callable[[Mapping[str, Any]], ReadQuery | None]
_KINDS: tuple[tuple[frozenset[str], _Read], ...] = (
    (frozenset({"metadata", "context"}), _read_trino),
    (frozenset({"query_id", "used_tables"}), _read_hive),
    (frozenset({"engine", "id", "tables"}), _read_plain),
)


def _build_query(
    *,
    engine: object,
    id: object,
    sql: object,
    tables: tuple[tuple[str, str], ...],
    at: int,
    seconds: float,
    files: Any,
    size: Any,
) -> ReadQuery | None:
    if not isinstance(sql, str):
        raise ValueError(f"the query's text is {_shorten(sql)}; expected: a text")
    if not 0 <= seconds < _LARGEST or not 0 <= at < _LARGEST:
        raise ValueError(f"{seconds} s at {at}")
    query = ReadQuery(
        engine=_check_name(engine, "the engine", _MOST_ENGINE),
        id=_check_name(id, "the query's id", _MOST_ID),
        tables=tables,
        like=digest_likeness(sql, tables, quotes_are_text=engine == "hive"),
        at=at,
        seconds=seconds,
        files=_check_number(files),
        bytes=_check_number(size),
    )
    return query if tables else None


def _check_list(value: object, what: str) -> list[Any]:
    """Returns ``value`` if it is a list; an empty one for None.

    Raises:
        ValueError: it is something else.
    """
    if value is not None and not isinstance(value, list):
        raise ValueError(f"{what} are {ascii(value)[:60]}; expected: a list")
    return value or []


def _check_tables(names: Iterable[Any]) -> tuple[tuple[str, str], ...]:
    """Returns the distinct pairs of database and table, sorted."""
    pairs: dict[tuple[str, str], None] = {}
    for database, table in names:
        pair = (
            _check_name(database, "a database's name", _MOST_NAME).lower(),
            _check_name(table, "a table's name", _MOST_NAME).lower(),
        )
        pairs[pair] = None
    if len(pairs) > _MOST_TABLES:
        raise ValueError(f"{len(pairs)} tables; expected: at most {_MOST_TABLES}")
    return tuple(sorted(pairs))


def _check_name(value: object, what: str, most: int) -> str:
    """Returns ``value`` if it is a printable text that fits into every database.

    Raises:
        ValueError: it is not.
    """
    if not isinstance(value, str) or not 0 < len(value) <= most or not value.isprintable():
        raise ValueError(f"{what} is {ascii(value)[:60]}; expected: 1 to {most} printable characters")
    return value


def _parse_counter(value: Any) -> Any:
    """Returns a counter of Hive's; None for -1, which means that it does not apply."""
    return None if value is None or int(value) < 0 else int(value)


def _check_number(value: Any) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < _LARGEST:
        raise ValueError(f"{_shorten(value)} is not a number of files or bytes")
    return value


def _parse_time(value: Any) -> int:
    """Parses a time into epoch ms: ISO 8601, Hive's text or a number of seconds.

    Hive's text is UTC unless it has a zone.
    """
    if isinstance(value, str):
        read = datetime.fromisoformat(_within_microseconds(value.strip()))
        return round((read if read.tzinfo else read.replace(tzinfo=UTC)).timestamp() * 1000)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{_shorten(value)} is not a time")
    return round(value * 1000) if value < 1e11 else round(value)  # such a large number is milliseconds


def _within_microseconds(text: str) -> str:
    return re.sub(r"(\.\d{6})\d+", r"\1", text)


def _parse_duration(value: Any) -> float:
    """Parses a duration into seconds: a number of seconds, or ISO 8601, such as ``PT1M2.5S``."""
    if isinstance(value, str) and (read := _DURATION.match(value)):
        hours, minutes, seconds = (float(part or 0) for part in read.groups())
        return 3600 * hours + 60 * minutes + seconds
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{_shorten(value)} is not a duration")
    return float(value)


def _shorten(value: object) -> str:
    return str(value)[:_MOST_SHOWN]


def normalise_query(sql: str, *, quotes_are_text: bool) -> str:
    """Returns a query without its constants, blanks and comments, words in lower case.

    Args:
        quotes_are_text: true where double quotes hold a constant, as in Hive; otherwise they hold a name.
    """
    constants = {"text", "number", *(["quoted"] if quotes_are_text else [])}
    parts = []
    for part in _PARTS.finditer(sql[:MOST_TEXT]):
        kind = part.lastgroup
        if kind in constants:
            parts.append(_CONSTANT)
        elif kind != "blank":
            parts.append(part.group() if kind in ("quoted", "name") else part.group().lower())
    return re.sub(r"\?(?: , \?)+", "?", " ".join(parts)).rstrip("; ")


def digest_likeness(sql: str, tables: Collection[tuple[str, str]], *, quotes_are_text: bool) -> str:
    """Returns a digest that like queries share and that does not reveal their text."""
    alike = json.dumps([normalise_query(sql, quotes_are_text=quotes_are_text), sorted(tables)])
    return hashlib.blake2b(alike.encode(errors="surrogatepass"), digest_size=_SIZE).hexdigest()

"""Parses a metastore's dump of one table: the rows of the transaction tables and the text of DESCRIBE FORMATTED.

Pure: text in, values out. The dumps are those of ``tests/fixtures`` (Hive 2.3, 3.1, 4.1 and Trino over Hive 3.1).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from compactor.base.errors import BadFile

Row = Mapping[str, str | None]  #: column name as the metastore spells it -> text, None for NULL

ORC_INPUT_FORMAT = "org.apache.hadoop.hive.ql.io.orc.OrcInputFormat"

_HEADING = re.compile(r"\[(?P<table>\w+)\] (?P<columns>\w+(?:,\w+)*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Dump:
    """Rows by table; a table that the dumped metastore does not have is absent, an empty one is an empty tuple."""

    name: str
    tables: Mapping[str, tuple[Row, ...]]

    def rows(self, table: str) -> tuple[Row, ...]:
        """Returns the rows of ``table``; none if the dump does not have it."""
        return self.tables.get(table, ())

    def number(self, table: str, column: str) -> int | None:
        """Returns the number in a one-row table such as NEXT_TXN_ID; None if it is absent."""
        rows = self.rows(table)
        return None if not rows else int(rows[0][column] or 0)


def parse_dump(text: str, name: str) -> Dump:
    """Parses a ``txn_tables.txt``; ``name`` is for messages.

    Raises:
        BadFile: a row does not have as many values as its heading has columns, or has no heading.
    """
    tables: dict[str, list[Row]] = {}
    current: tuple[list[Row], list[str]] | None = None
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        if match := _HEADING.fullmatch(line.rstrip()):
            current = tables.setdefault(match["table"], []), match["columns"].split(",")
            continue
        if current is None:
            raise BadFile(f"{name}:{number}: a row without a heading; expected a line '[TABLE] COLUMN,…' before it")
        rows, columns = current
        # A line that ends with "name | " has an empty last value.
        values = (line + " " if line.endswith(" |") else line).removeprefix("   ").split(" | ")
        if len(values) != len(columns):
            raise BadFile(f"{name}:{number}: {len(values)} values; expected {len(columns)} ({', '.join(columns)})")
        rows.append({c: None if v == "null" else v for c, v in zip(columns, values, strict=True)})
    return Dump(name=name, tables={table: tuple(rows) for table, rows in tables.items()})


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """A table as printed by DESCRIBE FORMATTED. Columns and partition keys are (name, Hive type) in order."""

    columns: tuple[tuple[str, str], ...]
    partition_keys: tuple[tuple[str, str], ...]
    parameters: Mapping[str, str]
    location: str | None
    owner: str
    type: str
    input_format: str
    buckets: int
    bucket_columns: tuple[str, ...]
    sort_columns: tuple[str, ...]


_COMPUTED = frozenset({"numPartitions"})  # printed among the parameters, stored nowhere


def parse_description(text: str, name: str) -> Description:
    """Parses a ``describe.txt``; ``name`` is for messages.

    Raises:
        BadFile: there is no column, or a number cannot be parsed.
    """
    columns: list[tuple[str, str]] = []
    keys: list[tuple[str, str]] = []
    parameters: dict[str, str] = {}
    facts: dict[str, str] = {}
    section = "columns"
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split("\t")]
        if line.startswith("# "):
            section = {"# Partition Information": "keys", "# Detailed Table Information": "facts"}.get(
                cells[0], "facts" if cells[0] == "# Storage Information" else section
            )
        elif line.startswith("\t") and section == "parameters" and cells[1]:
            if cells[1] not in _COMPUTED:
                parameters[cells[1]] = (cells[2] if len(cells) > 2 else "").replace('\\"', '"')
        elif cells[0] == "Table Parameters:":
            section = "parameters"
        elif cells[0] and section in ("columns", "keys"):
            (columns if section == "columns" else keys).append((cells[0], cells[1]))
        elif cells[0].endswith(":"):
            facts[cells[0].removesuffix(":")] = cells[1] if len(cells) > 1 else ""
    if not columns:
        raise BadFile(f"{name}: it has no column; expected the text of DESCRIBE FORMATTED")
    return _make_description(name, tuple(columns), tuple(keys), parameters, facts)


def _make_description(
    name: str,
    columns: tuple[tuple[str, str], ...],
    keys: tuple[tuple[str, str], ...],
    parameters: Mapping[str, str],
    facts: Mapping[str, str],
) -> Description:
    try:
        buckets = int(facts.get("Num Buckets", "-1"))
    except ValueError as error:
        raise BadFile(f"{name}: Num Buckets is {facts['Num Buckets']!r}; expected a number") from error
    return Description(
        columns=columns,
        partition_keys=keys,
        parameters=parameters,
        location=facts.get("Location"),
        owner=facts.get("Owner", ""),
        type=facts.get("Table Type", "MANAGED_TABLE"),
        input_format=facts.get("InputFormat", ORC_INPUT_FORMAT),
        buckets=buckets,
        bucket_columns=_parse_brackets(facts.get("Bucket Columns", "[]")),
        sort_columns=_parse_brackets(facts.get("Sort Columns", "[]")),
    )


def _parse_brackets(text: str) -> tuple[str, ...]:
    """Parses ``[a, b]`` into ``("a", "b")``."""
    return tuple(part.strip() for part in text.strip("[]").split(",") if part.strip())

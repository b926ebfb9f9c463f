"""Finds the database, table or partition that a person names, in the same way for all commands.

``DB.TABLE`` is a table, and ``TABLE`` is a table of the database ``default``. For lists, ``DB.*`` is a database, and a bare
name may be a database too; an ambiguous name must be written out. A name that matches nothing, not even rows of something
dropped, is an error that suggests the most similar name.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from compactor.base.errors import BadSetting, NotFound, Refused
from compactor.compaction.queue_entry import Entity
from compactor.metastore.catalog.read import Catalog
from compactor.metastore.catalog.values import Table

_DEFAULT = "default"  #: the database of a bare name


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """The part of a metastore that a list is about; None matches all."""

    database: str | None = None
    table: str | None = None
    partition: str | None = None

    def __str__(self) -> str:
        name = ".".join(part for part in (self.database, self.table or "*") if part is not None)
        return name if self.partition is None else f"{name}/{self.partition}"

    def holds(self, entity: Entity) -> bool:
        pairs = (
            (self.database, entity.database),
            (self.table, entity.table),
            (self.partition, entity.partition),
        )
        return all(name is None or name == other for name, other in pairs)


def parse_table(text: str) -> tuple[str, str]:
    """Parses ``db.table`` into its two names in lower case; a bare name is a table of ``default``.

    Raises:
        Refused: ``text`` is neither.
    """
    database, dot, table = text.strip().lower().rpartition(".")
    if not table or (dot and not database) or "." in database:
        raise Refused(f"table {text!r}: expected DATABASE.TABLE")
    return database or _DEFAULT, table


def find_table(catalog: Catalog, text: str) -> Table:
    """Returns the table that ``text`` names.

    Raises:
        NotFound: there is no such table; the message suggests a similar one, or says that it is a database.
        Refused: ``text`` is not a valid table name.
    """
    database, name = parse_table(text)
    try:
        return catalog.table(database, name)
    except NotFound:
        if catalog.is_known(database, name):
            raise  # the message says why it is not a table
        if "." not in text and name in catalog.databases():
            raise NotFound(f"{text!r} is a database; name one of its tables, as {name}.TABLE") from None
        raise NotFound(_unknown_name(catalog, [Where(database=database, table=name)])) from None


def find_where(
    catalog: Catalog, name: str | None, partition: str | None, has_rows: Callable[[Where], bool] = lambda _: False
) -> Where:
    """Returns the part of the metastore that ``name`` and ``partition`` mean.

    A partition is named as it is stored, or as ``k=v,k=v``.

    Args:
        has_rows: returns true if a list has rows of something dropped.

    Raises:
        NotFound: nothing has this name, and there are no rows of it.
        BadSetting: a bare name is that of a table and of a database, or a partition is named without its table.
    """
    if name is None:
        if partition is not None:
            raise BadSetting(f"partition {partition!r}: name its table too, as DB.TABLE")
        return Where()
    meanings = readings(name)
    matches = [meaning for meaning in meanings if _is_there(catalog, meaning)] or [
        meaning for meaning in meanings if has_rows(meaning)
    ]
    if not matches:
        raise NotFound(_unknown_name(catalog, meanings))
    if len(matches) > 1:
        raise BadSetting(
            f"{name!r}: there is a table {matches[0]} and a database {matches[1].database}; write {matches[0]} or "
            f"{matches[1]}"
        )
    if partition is None:
        return matches[0]
    if matches[0].table is None:
        raise BadSetting(
            f"partition {partition!r}: {name!r} is a database; name a table, as {matches[0].database}.TABLE"
        )
    return _with_partition(catalog, matches[0], partition, has_rows)


def nearest(name: str, known: Iterable[str]) -> str:
    """Returns ``; did you mean X?`` for the most similar of ``known``; an empty text if none is similar."""
    close = difflib.get_close_matches(name, sorted(set(known)), n=1)
    return f"; did you mean {close[0]}?" if close else ""


def readings(name: str) -> list[Where]:
    """Returns the possible meanings of ``name``; a bare name is a table of ``default`` or a database.

    Raises:
        BadSetting: ``name`` is malformed.
    """
    text = name.strip().lower()
    database, dot, table = text.partition(".")
    if not database or (dot and not table) or "." in table:
        raise BadSetting(f"{name!r}: expected DB.TABLE, DB.* or the name of a table or database")
    if not dot:
        return [Where(database=_DEFAULT, table=text), Where(database=text)]
    return [Where(database=database) if table == "*" else Where(database=database, table=table)]


def _is_there(catalog: Catalog, where: Where) -> bool:
    assert where.database is not None
    if where.table is None:
        return where.database in catalog.databases()
    return catalog.is_known(where.database, where.table)


def _unknown_name(catalog: Catalog, meanings: Sequence[Where]) -> str:
    """Returns a message that nothing has one of these meanings, with the most similar name."""
    first, databases = meanings[0], {name: f"{name}.*" for name in catalog.databases()}
    if first.table is None:
        what, name, known = "database", str(first.database), databases
    elif len(meanings) == 1:
        what, name = "table", str(first)
        known = {f"{database}.{table}": f"{database}.{table}" for database, table in catalog.names()}
    else:
        what, name = "table or database", first.table
        tables = {table: f"{_DEFAULT}.{table}" for database, table in catalog.names() if database == _DEFAULT}
        known = databases | tables
    close = difflib.get_close_matches(name, sorted(known), n=1)
    hint = f"did you mean {known[close[0]]}?" if close else "look at `compactor show tables`"
    return f"{what} {name} is not in the metastore; {hint}"


def _with_partition(catalog: Catalog, where: Where, partition: str, has_rows: Callable[[Where], bool]) -> Where:
    assert where.database is not None
    assert where.table is not None
    stored = replace(where, partition=partition)
    try:
        table = catalog.table(where.database, where.table)
        return replace(where, partition=catalog.resolve_partition(table, partition))
    except NotFound:
        if has_rows(stored):  # rows of a dropped partition
            return stored
        raise

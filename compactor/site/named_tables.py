"""The table, or the database, table or partition, that a person names: one reading for all commands.

``DB.TABLE`` is a table, and a bare name one of the database ``default``. For lists, ``DB.*`` is a database, and a bare name
may be one; what is both must be written out. A name that nothing has, and of which no row is left either, is an error
with the name most like it instead of an empty list.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from compactor.base.errors import BadSetting, NotFound, Refused
from compactor.compaction.entry import Entity
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
        return all(wanted is None or wanted == found for wanted, found in pairs)


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
        NotFound: there is none; the message has the table most like it, or says that it is a database.
        Refused: ``text`` is not the name of a table.
    """
    database, name = parse_table(text)
    try:
        return catalog.table(database, name)
    except NotFound:
        if catalog.is_known(database, name):
            raise  # it says what it is instead of a table
        if "." not in text and name in catalog.databases():
            raise NotFound(f"{text!r} is a database; name one of its tables, as {name}.TABLE") from None
        raise NotFound(_unknown(catalog, [Where(database=database, table=name)])) from None


def find_where(
    catalog: Catalog, name: str | None, partition: str | None, has_rows: Callable[[Where], bool] = lambda _: False
) -> Where:
    """Returns what ``name`` and ``partition`` mean; ``has_rows`` tells whether a list has rows of something dropped.

    A partition is named as stored, or as ``k=v,k=v``.

    Raises:
        NotFound: nothing has this name, nor has any row.
        BadSetting: a bare name is that of a table and of a database, or a partition is named without its table.
    """
    if name is None:
        if partition is not None:
            raise BadSetting(f"partition {partition!r}: name its table too, as DB.TABLE")
        return Where()
    meanings = readings(name)
    found = [one for one in meanings if _is_there(catalog, one)] or [one for one in meanings if has_rows(one)]
    if not found:
        raise NotFound(_unknown(catalog, meanings))
    if len(found) > 1:
        raise BadSetting(
            f"{name!r}: there is a table {found[0]} and a database {found[1].database}; write {found[0]} or {found[1]}"
        )
    if partition is None:
        return found[0]
    if found[0].table is None:
        raise BadSetting(f"partition {partition!r}: {name!r} is a database; name a table, as {found[0].database}.TABLE")
    return _with_partition(catalog, found[0], partition, has_rows)


def nearest(wanted: str, known: Iterable[str]) -> str:
    """Returns ``; did you mean X?`` for the most similar of ``known``; an empty text if none is similar."""
    close = difflib.get_close_matches(wanted, sorted(set(known)), n=1)
    return f"; did you mean {close[0]}?" if close else ""


def readings(name: str) -> list[Where]:
    """Returns what ``name`` may mean: a bare one a table of ``default`` or a database.

    Raises:
        BadSetting: it is none.
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


def _unknown(catalog: Catalog, meanings: Sequence[Where]) -> str:
    """Returns that nothing has one of these meanings, and what is called nearly so."""
    first, databases = meanings[0], {name: f"{name}.*" for name in catalog.databases()}
    if first.table is None:
        what, wanted, known = "database", str(first.database), databases
    elif len(meanings) == 1:
        what, wanted = "table", str(first)
        known = {f"{database}.{table}": f"{database}.{table}" for database, table in catalog.names()}
    else:
        what, wanted = "table or database", first.table
        tables = {table: f"{_DEFAULT}.{table}" for database, table in catalog.names() if database == _DEFAULT}
        known = databases | tables
    close = difflib.get_close_matches(wanted, sorted(known), n=1)
    hint = f"did you mean {known[close[0]]}?" if close else "look at `compactor show tables`"
    return f"{what} {wanted} is not in the metastore; {hint}"


def _with_partition(catalog: Catalog, where: Where, partition: str, has_rows: Callable[[Where], bool]) -> Where:
    assert where.database is not None
    assert where.table is not None
    stored = replace(where, partition=partition)
    try:
        table = catalog.table(where.database, where.table)
        return replace(where, partition=catalog.resolve_partition(table, partition))
    except NotFound:
        if has_rows(stored):  # it was dropped
            return stored
        raise

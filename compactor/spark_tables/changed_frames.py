"""The changed rows of a statement as one DataFrame, arranged for those who write them; see ``changed_rows``.

A row that is updated stays one row until it is written, and rows are shuffled by the place of the row that they change: its
partition, file number and range of ROW__IDs, which are the same however often Spark evaluates what they come from. So a task
that is tried again, or whose input is, writes changes that fit to those of the others. Rows that are added go by the numbers
that ``stored`` gave the source's rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

from compactor.base.errors import NotFound
from compactor.spark_tables.clauses import Clause, Expression, by_column, is_plain, with_columns
from compactor.spark_tables.messages import BegunChange
from compactor.spark_tables.pushdown import quoted
from compactor.tables.schema import ROW_ID
from compactor.tables.writing.row_change import CLAUSE, EXACT, FILE, KIND, Kind, value_column, value_columns

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

SOURCE_ROW = "row__source"  #: the number of a row of the source
_UNMOVED = "unmoved"  #: the key of a value that must be the row's own
_RANGE = 22  #: bits of row IDs and numbers that are written by one task
_CHECKPOINTS = "spark.checkpoint.dir"


@dataclass(frozen=True, kw_only=True)
class Target:
    """The rows of the table that is changed, with ROW__ID and file, under the table's alias."""

    rows: DataFrame
    begun: BegunChange
    table: str

    def place(self, column: str) -> int:
        """Returns the place of one of its columns."""
        return self.begun.columns.index(column)

    def kept(self, columns: Iterable[str]) -> list[str]:
        """Returns the names of what ``rows`` has of those of ``columns`` that stay as they are: exact values, where Spark
        would cut digits off."""
        schema, stays = self.rows.schema, list(columns)
        exact = schema[EXACT].dataType.names if EXACT in schema.names else []
        return [*([EXACT] if set(exact) & set(stays) else []), *(column for column in stays if column not in exact)]


def stored(source: DataFrame) -> DataFrame:
    """Evaluates the rows of a merge's source once, keeps and numbers them: at ``spark.checkpoint.dir`` if there is one, else
    on executors, and then the loss of one fails the merge."""
    numbered = source.select("*", F.monotonically_increasing_id().alias(SOURCE_ROW))
    if source.sparkSession.conf.get(_CHECKPOINTS, None):
        return numbered.checkpoint()
    return numbered.localCheckpoint()


def deleted_rows(target: Target, condition: Expression | None) -> DataFrame:
    """Returns the rows that a DELETE deletes."""
    found = _meeting(target.rows, condition)
    return _arranged(found.select(F.lit(int(Kind.DELETE)).alias(KIND), F.col(ROW_ID), F.col(FILE)), [])


def updated_rows(target: Target, condition: Expression | None, values: Mapping[str, Expression]) -> DataFrame:
    """Returns the rows of an UPDATE with their new values."""
    found = _meeting(target.rows, condition)
    named = {target.place(column): _as_text(target, column, _expression(value)) for column, value in values.items()}
    new = [value.alias(value_column(place, [0])) for place, value in named.items()]
    stays = [
        F.col(quoted(name)) for name in target.kept(column for column in target.begun.columns if column not in values)
    ]
    return _arranged(found.select(F.lit(int(Kind.UPDATE)).alias(KIND), F.col(ROW_ID), F.col(FILE), *stays, *new), [])


def merged_rows(target: Target, source: DataFrame, on: Expression, clauses: Sequence[Clause]) -> DataFrame:
    """Returns the rows of a MERGE: those that match and are changed, or count for the check, and those that are added.

    Raises:
        NotFound: a clause names a column that the table does not have, or takes one that the source does not have.
        NotConforming: a row to insert has too few or too many values.
    """
    clauses = [with_columns(clause, target.begun.columns, target.table) for clause in clauses]
    values = [_values(target, source, clause) for clause in clauses]
    inserts = any(not clause.is_matched for clause in clauses)
    joined = source.join(target.rows, _expression(on), "left_outer" if inserts else "inner")
    matched = target.rows[ROW_ID].isNotNull()
    chosen = joined.select("*", _chosen(clauses, matched).alias(CLAUSE))
    counts = F.col(CLAUSE).isNotNull()
    chosen = chosen.filter(counts | matched if target.begun.is_checked else counts)
    kind = _by_clause([F.lit(int(clause.kind)) for clause in clauses], F.lit(int(Kind.NOTHING)))
    stays = target.kept(
        column
        for column in target.begun.columns
        if any(clause.kind is Kind.UPDATE and column not in of for clause, of in zip(clauses, values, strict=True))
    )
    new = _new_values(target, values)
    made = chosen.select(
        kind.alias(KIND),
        F.col(CLAUSE),
        *(target.rows[quoted(name)].alias(name) for name in (ROW_ID, FILE, *stays)),
        # of no other row: an expression may fail there
        *(F.when(F.col(CLAUSE).isin(list(of)), value).alias(value_column(place, of)) for place, of, value in new),
        source[SOURCE_ROW].alias(SOURCE_ROW),
    )
    return _arranged(made, _place_of_added(target, clauses, made)).drop(SOURCE_ROW)


def _new_values(
    target: Target, values: Sequence[Mapping[str, tuple[object, Column]]]
) -> list[tuple[int, tuple[int, ...], Column]]:
    """Returns the new values, each with the place of its column and the numbers of the clauses that give it."""
    shared: dict[tuple[int, object], tuple[list[int], Column]] = {}
    for at, of_clause in enumerate(values):
        for column, (key, value) in of_clause.items():
            text = _as_text(target, column, value)
            shared.setdefault((target.place(column), key), ([], text))[0].append(at)
    return [(place, tuple(of), value) for (place, _), (of, value) in shared.items()]


def _values(target: Target, source: DataFrame, clause: Clause) -> dict[str, tuple[object, Column]]:
    """Returns the values of a clause by column, of the source's types, each with a key that equal ones share."""
    if clause.values is not None:
        named = by_column(clause.values, target.begun.columns, target.table)
        return {
            column: (value if isinstance(value, str) else object(), _expression(value))
            for column, value in named.items()
        }
    found = {column.lower() for column in source.columns}
    if missing := [column for column in target.begun.columns if column.lower() not in found]:
        raise NotFound(
            f"{target.table}: the source has no column {missing[0]!r}, which a clause that takes all columns needs; name "
            "the columns in set or values instead"
        )
    every = {column: source[quoted(column)] for column in target.begun.columns}
    fixed = {column.lower() for column in (*target.begun.partition_keys, *target.begun.bucket_columns)}
    return {
        column: (_UNMOVED, _unmoved(target, column, value))
        if clause.kind is Kind.UPDATE and column.lower() in fixed
        else (None, value)
        for column, value in every.items()
    }


def _unmoved(target: Target, column: str, value: Column) -> Column:
    """Returns the row's own value; fails for a row whose source has another one."""
    own = target.rows[quoted(column)]
    why = (
        f"compactor: NotConforming: {target.table}: column {column} says in which partition or bucket a row is, and the "
        "source has another value for it; delete such a row and insert the new one"
    )
    return F.when(value.eqNullSafe(own), own).otherwise(F.raise_error(F.lit(why)))


def _chosen(clauses: Sequence[Clause], matched: Column) -> Column:
    """Returns the number of the first clause that a row meets, NULL without one."""
    found: Any = F
    for at, clause in enumerate(clauses):
        meets = matched if clause.is_matched else ~matched
        if clause.condition is not None:
            meets = meets & _expression(clause.condition)
        found = found.when(meets, F.lit(at))
    return found


def _by_clause(branches: Sequence[Column], otherwise: Column) -> Column:
    found: Any = F
    for at, branch in enumerate(branches):
        found = found.when(F.col(CLAUSE) == at, branch)
    return found.otherwise(otherwise)


def _as_text(target: Target, column: str, value: Column) -> Column:
    """Returns the values of a column of texts as Spark writes them; others stay of their types, and who writes them converts
    them (PROTOCOL 14.3)."""
    kind = target.begun.types[target.place(column)]
    return value.cast("string") if kind == "string" or kind.startswith(("char(", "varchar(")) else value


def _place_of_added(target: Target, clauses: Sequence[Clause], rows: DataFrame) -> list[Column]:
    """Returns what rows that are added are shuffled by: their partition, so that it has few files, if each evaluation is
    sure to give the same; else the numbers of the source's rows."""
    keys = target.begun.partition_keys
    inserts = {at: clause for at, clause in enumerate(clauses) if clause.kind is Kind.INSERT}
    texts = [
        value
        for clause in inserts.values()
        for name, value in (clause.values or {}).items()
        if name.lower() in {key.lower() for key in keys}
    ]
    is_added = F.col(KIND) == int(Kind.INSERT)
    if keys and all(map(is_plain, texts)):
        new, places = value_columns(rows.columns), [target.place(key) for key in keys]
        names = [[new[at, place] for at in inserts if (at, place) in new] for place in places]
        return [F.when(is_added, F.coalesce(*(F.col(name).cast("string") for name in some))) for some in names if some]
    return [F.when(is_added, F.shiftright(F.col(SOURCE_ROW), _RANGE - 2))]


def _arranged(rows: DataFrame, added: Sequence[Column]) -> DataFrame:
    """Returns ``rows`` shuffled and sorted: those of one file and range of ROW__IDs together, in the order of ROW__IDs."""
    row_id, file = F.col(ROW_ID), F.col(FILE)
    places = [file["partition"], file["number"]]
    ids = [row_id["writeid"], row_id["bucketid"], row_id["rowid"]]
    return rows.repartition(*places, F.shiftright(ids[2], _RANGE), *added).sortWithinPartitions(*places, *ids)


def _meeting(rows: DataFrame, condition: Expression | None) -> DataFrame:
    return rows if condition is None else rows.filter(condition)


def _expression(value: Expression) -> Column:
    """Returns a Column for SQL text."""
    read: Callable[[str], Column] = F.expr
    return read(value) if isinstance(value, str) else value

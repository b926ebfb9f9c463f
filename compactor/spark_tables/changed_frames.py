"""Builds one DataFrame with all changed rows of a statement, arranged for the tasks that write them.

Its columns are those of ``row_change``. An updated row stays one row until it is written. Rows are shuffled by the
place of the row that they change: partition, file number and range of ROW__IDs. These are the same however often Spark
evaluates the statement, so a task that runs again writes changes that fit those of other tasks. Inserted rows are
shuffled by the numbers that ``store_source`` gave to the source's rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

from compactor.base.errors import NotFound
from compactor.spark_tables.clauses import Clause, Expression, is_plain, map_by_column, name_columns
from compactor.spark_tables.keeper_requests import BegunChange
from compactor.spark_tables.pushdown import quote_name
from compactor.tables.schema import ROW_ID
from compactor.tables.writing.row_change import CLAUSE, EXACT, FILE, KIND, RowChangeKind, value_column, value_columns

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

SOURCE_ROW = "row__source"  #: the column with the number of a source row
_UNMOVED = "unmoved"  #: the key of a value that must equal the row's own
_RANGE = 22  #: one task writes row IDs and numbers that differ only in their last 22 bits
_CHECKPOINTS = "spark.checkpoint.dir"


@dataclass(frozen=True, kw_only=True)
class ChangedTarget:
    """The rows of the changed table with ROW__ID and file, under the table's alias."""

    rows: DataFrame
    begun: BegunChange
    table: str

    def place(self, column: str) -> int:
        """Returns the position of a column in the table."""
        return self.begun.columns.index(column)

    def names_of_unchanged(self, columns: Iterable[str]) -> list[str]:
        """Returns the names under which ``rows`` has ``columns``, which do not change.

        Columns whose values Spark would round are fields of EXACT.
        """
        schema, unchanged = self.rows.schema, list(columns)
        exact = schema[EXACT].dataType.names if EXACT in schema.names else []
        others = [column for column in unchanged if column not in exact]
        return [*([EXACT] if set(exact) & set(unchanged) else []), *others]


def store_source(source: DataFrame) -> DataFrame:
    """Evaluates a merge's source once, numbers its rows and stores them.

    They are stored in ``spark.checkpoint.dir`` if it is set. Otherwise executors store them, and losing one fails the merge.
    """
    numbered = source.select("*", F.monotonically_increasing_id().alias(SOURCE_ROW))
    if source.sparkSession.conf.get(_CHECKPOINTS, None):
        return numbered.checkpoint()
    return numbered.localCheckpoint()


def select_deleted_rows(target: ChangedTarget, condition: Expression | None) -> DataFrame:
    """Returns the rows that a DELETE deletes."""
    rows = _filter_rows(target.rows, condition)
    return _arrange_rows(rows.select(F.lit(int(RowChangeKind.DELETE)).alias(KIND), F.col(ROW_ID), F.col(FILE)), [])


def select_updated_rows(
    target: ChangedTarget, condition: Expression | None, values: Mapping[str, Expression]
) -> DataFrame:
    """Returns the rows of an UPDATE with their new values."""
    rows = _filter_rows(target.rows, condition)
    by_place = {target.place(column): _as_text(target, column, _to_column(value)) for column, value in values.items()}
    new = [value.alias(value_column(place, [0])) for place, value in by_place.items()]
    unchanged = [
        F.col(quote_name(name))
        for name in target.names_of_unchanged(column for column in target.begun.columns if column not in values)
    ]
    return _arrange_rows(
        rows.select(F.lit(int(RowChangeKind.UPDATE)).alias(KIND), F.col(ROW_ID), F.col(FILE), *unchanged, *new), []
    )


def join_merged_rows(target: ChangedTarget, source: DataFrame, on: Expression, clauses: Sequence[Clause]) -> DataFrame:
    """Returns the rows of a MERGE: changed and inserted rows, and other matched rows for the check.

    The cardinality check counts every matched row.

    Raises:
        NotFound: the table has no column that a clause names, or the source has no column that a clause takes.
        NotConforming: a row to insert has too few or too many values.
    """
    clauses = [name_columns(clause, target.begun.columns, target.table) for clause in clauses]
    values = [_clause_values(target, source, clause) for clause in clauses]
    inserts = any(not clause.is_matched for clause in clauses)
    # Each row meets the first clause that applies; rows without a clause only count for the cardinality check.
    joined = source.join(target.rows, _to_column(on), "left_outer" if inserts else "inner")
    matched = target.rows[ROW_ID].isNotNull()
    chosen = joined.select("*", _choose_clause(clauses, matched).alias(CLAUSE))
    counts = F.col(CLAUSE).isNotNull()
    chosen = chosen.filter(counts | matched if target.begun.is_checked else counts)
    kind = _switch_on_clause([F.lit(int(clause.kind)) for clause in clauses], F.lit(int(RowChangeKind.NOTHING)))
    unchanged = target.names_of_unchanged(
        column
        for column in target.begun.columns
        if any(
            clause.kind is RowChangeKind.UPDATE and column not in of for clause, of in zip(clauses, values, strict=True)
        )
    )
    new = _new_values(target, values)
    changes = chosen.select(
        kind.alias(KIND),
        F.col(CLAUSE),
        *(target.rows[quote_name(name)].alias(name) for name in (ROW_ID, FILE, *unchanged)),
        # A value is evaluated only for rows of its clauses: it may fail for others.
        *(F.when(F.col(CLAUSE).isin(list(of)), value).alias(value_column(place, of)) for place, of, value in new),
        source[SOURCE_ROW].alias(SOURCE_ROW),
    )
    return _arrange_rows(changes, _shuffle_keys_of_inserts(target, clauses, changes)).drop(SOURCE_ROW)


def _new_values(
    target: ChangedTarget, values: Sequence[Mapping[str, tuple[object, Column]]]
) -> list[tuple[int, tuple[int, ...], Column]]:
    """Returns the new values, each with the place of its column and the clauses that set it."""
    shared: dict[tuple[int, object], tuple[list[int], Column]] = {}
    for at, of_clause in enumerate(values):
        for column, (key, value) in of_clause.items():
            text = _as_text(target, column, value)
            shared.setdefault((target.place(column), key), ([], text))[0].append(at)
    return [(place, tuple(of), value) for (place, _), (of, value) in shared.items()]


def _clause_values(target: ChangedTarget, source: DataFrame, clause: Clause) -> dict[str, tuple[object, Column]]:
    """Returns the values of a clause by column, in the source's types. Equal values share a key."""
    if clause.values is not None:
        by_column = map_by_column(clause.values, target.begun.columns, target.table)
        return {
            column: (value if isinstance(value, str) else object(), _to_column(value))
            for column, value in by_column.items()
        }
    source_columns = {column.lower() for column in source.columns}
    if missing := [column for column in target.begun.columns if column.lower() not in source_columns]:
        raise NotFound(
            f"{target.table}: the source has no column {missing[0]!r}, which a clause that takes all columns needs; name "
            "the columns in set or values instead"
        )
    every = {column: source[quote_name(column)] for column in target.begun.columns}
    fixed = {column.lower() for column in (*target.begun.partition_keys, *target.begun.bucket_columns)}
    return {
        column: (_UNMOVED, _require_own_value(target, column, value))
        if clause.kind is RowChangeKind.UPDATE and column.lower() in fixed
        else (None, value)
        for column, value in every.items()
    }


def _require_own_value(target: ChangedTarget, column: str, value: Column) -> Column:
    """Returns the row's own value. Its evaluation fails if the source has another value."""
    own = target.rows[quote_name(column)]
    why = (
        f"compactor: NotConforming: {target.table}: column {column} decides in which partition or bucket a row is, and the "
        "source has another value for it; delete such a row and insert the new one"
    )
    return F.when(value.eqNullSafe(own), own).otherwise(F.raise_error(F.lit(why)))


def _choose_clause(clauses: Sequence[Clause], matched: Column) -> Column:
    """Returns the number of the first clause that a row meets; NULL if it meets no clause."""
    choice: Any = F
    for at, clause in enumerate(clauses):
        meets = matched if clause.is_matched else ~matched
        if clause.condition is not None:
            meets = meets & _to_column(clause.condition)
        choice = choice.when(meets, F.lit(at))
    return choice


def _switch_on_clause(branches: Sequence[Column], otherwise: Column) -> Column:
    switch: Any = F
    for at, branch in enumerate(branches):
        switch = switch.when(F.col(CLAUSE) == at, branch)
    return switch.otherwise(otherwise)


def _as_text(target: ChangedTarget, column: str, value: Column) -> Column:
    """Converts a value for a text column to Spark's text; tasks convert all other values (PROTOCOL 14.3)."""
    kind = target.begun.types[target.place(column)]
    return value.cast("string") if kind == "string" or kind.startswith(("char(", "varchar(")) else value


def _shuffle_keys_of_inserts(target: ChangedTarget, clauses: Sequence[Clause], rows: DataFrame) -> list[Column]:
    """Returns the columns by which inserted rows are shuffled.

    It is their partition, so that each partition gets few files, if every evaluation surely gives the same one. Otherwise it
    is the number of the source row.
    """
    keys = target.begun.partition_keys
    inserts = {at: clause for at, clause in enumerate(clauses) if clause.kind is RowChangeKind.INSERT}
    texts = [
        value
        for clause in inserts.values()
        for name, value in (clause.values or {}).items()
        if name.lower() in {key.lower() for key in keys}
    ]
    is_added = F.col(KIND) == int(RowChangeKind.INSERT)
    if keys and all(map(is_plain, texts)):
        new, places = value_columns(rows.columns), [target.place(key) for key in keys]
        names = [[new[at, place] for at in inserts if (at, place) in new] for place in places]
        return [F.when(is_added, F.coalesce(*(F.col(name).cast("string") for name in some))) for some in names if some]
    return [F.when(is_added, F.shiftright(F.col(SOURCE_ROW), _RANGE - 2))]


def _arrange_rows(rows: DataFrame, added: Sequence[Column]) -> DataFrame:
    """Shuffles the rows of one file and range of ROW__IDs into one task, and sorts them by ROW__ID.

    Args:
        added: the shuffle keys of inserted rows.
    """
    row_id, file = F.col(ROW_ID), F.col(FILE)
    places = [file["partition"], file["number"]]
    ids = [row_id["writeid"], row_id["bucketid"], row_id["rowid"]]
    return rows.repartition(*places, F.shiftright(ids[2], _RANGE), *added).sortWithinPartitions(*places, *ids)


def _filter_rows(rows: DataFrame, condition: Expression | None) -> DataFrame:
    return rows if condition is None else rows.filter(condition)


def _to_column(value: Expression) -> Column:
    """Returns an expression as a Column; it may be SQL text."""
    parse: Callable[[str], Column] = F.expr
    return parse(value) if isinstance(value, str) else value

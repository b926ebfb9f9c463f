"""ORC's reader and writer in C++, through pyorc and through pyarrow."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal, InvalidOperation
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.orc
import pyorc
from pyorc import CompressionKind, StructRepr, TypeDescription, TypeKind
from pyorc.converters import DecimalConverter, ORCConverter
from pyorc.predicates import Predicate as Argument
from pyorc.predicates import PredicateColumn

from tests.judges.predicates import Predicate
from tests.judges.values import (
    Row,
    Unreadable,
    char_value,
    children,
    date_days,
    date_text,
    decimal_value,
    parse_schema,
    row_type,
    time_nanos,
    time_text,
)

_UTC = ZoneInfo("UTC")


class _Time(ORCConverter):
    @staticmethod
    def from_orc(seconds: int, nanoseconds: int, timezone: Any) -> str:
        return time_text(seconds, nanoseconds)

    @staticmethod
    def to_orc(obj: str, timezone: Any) -> tuple[int, int]:
        return divmod(time_nanos(obj), 10**9)


class _Date(ORCConverter):
    @staticmethod
    def from_orc(days: int) -> str:
        return date_text(days)

    @staticmethod
    def to_orc(obj: str) -> int:
        return date_days(obj)


_CONVERTERS = {
    TypeKind.TIMESTAMP: _Time,
    TypeKind.TIMESTAMP_INSTANT: _Time,
    TypeKind.DATE: _Date,
    TypeKind.DECIMAL: DecimalConverter,
}


class PyorcJudge:
    """ORC C++ as pyorc calls it.

    Three things it cannot tell: the tag of a union (None here), the second of two equal keys of a map, and the
    predicates ``is null`` and ``<=>``, which it does not push down.
    """

    name = f"pyorc {pyorc.__version__}"

    def schema(self, path: Path) -> str:
        """Returns the schema of a file."""
        with path.open("rb") as file, _errors(self.name):
            return str(pyorc.Reader(file).schema)

    def count(self, path: Path) -> int:
        """Returns the number of rows in a file."""
        with path.open("rb") as file, _errors(self.name):
            return len(pyorc.Reader(file))

    def rows(self, path: Path) -> list[Row]:
        """Returns all rows of a file in their order."""
        return self.answers(path, [None])[0]

    def rows_matching(self, path: Path, predicate: Predicate) -> list[Row]:
        """Returns the rows that match and that the reader finds when the predicate is pushed down."""
        return self.answers(path, [predicate])[0]

    def answers(self, path: Path, predicates: Sequence[Predicate | None]) -> list[list[Row]]:
        """Returns the rows for each predicate; for None all of them."""
        schema = self.schema(path)
        return [self._rows(path, schema, predicate) for predicate in predicates]

    def _rows(self, path: Path, schema: str, predicate: Predicate | None) -> list[Row]:
        options = {"struct_repr": StructRepr.TUPLE, "timezone": _UTC, "converters": _CONVERTERS}
        with path.open("rb") as file, _errors(self.name):
            try:
                reader = pyorc.Reader(file, predicate=predicate and _argument(predicate, schema), **options)
            except InvalidOperation:  # a number that the file's older type cannot hold is not pushed down
                reader = pyorc.Reader(file, **options)
            convert = _from_pyorc(parse_schema(schema))
            return [row for row in map(convert, reader) if predicate is None or predicate.matches(row, schema)]

    def write(
        self,
        path: Path,
        schema: str,
        rows: Iterable[Row],
        *,
        compress: str = "ZLIB",
        zone: str = "UTC",
        metadata: Mapping[str, bytes] | None = None,
        bloom_filter_columns: Sequence[str] = (),
        **options: Any,
    ) -> None:
        """Writes a file; ``options`` are those of ``pyorc.Writer``, the columns of bloom filters those of the inner row."""
        kind = CompressionKind[compress]
        within = "" if row_type(schema) is parse_schema(schema) else "row."
        with path.open("wb") as file, _errors(self.name):
            writer = pyorc.Writer(
                file,
                schema,
                struct_repr=StructRepr.TUPLE,
                compression=kind,
                timezone=ZoneInfo(zone),
                converters=_CONVERTERS,
                bloom_filter_columns=[f"{within}{name}" for name in bloom_filter_columns],
                **options,
            )
            convert = _to_pyorc(parse_schema(schema))
            for row in rows:
                writer.write(convert(row))
            if metadata:
                writer.set_user_metadata(**metadata)
            writer.close()


def _argument(predicate: Predicate, schema: str) -> Argument | None:
    whole, kind, path = parse_schema(schema), row_type(schema), predicate.column.split(".")
    for part in path:
        kind = kind.fields[part]
    index = whole.find_column_id(".".join(path if row_type(schema) is whole else ["row", *path]))
    if predicate.operator in ("is null", "<=>") or kind.kind == TypeKind.BINARY:
        return None
    precision, scale = getattr(kind, "precision", None), getattr(kind, "scale", None)

    def column() -> PredicateColumn:
        return PredicateColumn(kind.kind, index=index, precision=precision, scale=scale)

    values = predicate.values
    if kind.kind == TypeKind.CHAR:
        values = tuple(value.ljust(kind.max_length) for value in values)
    match predicate.operator:
        case "<":
            argument = column() < values[0]
        case "<=":
            argument = column() <= values[0]
        case "between":
            argument = (column() >= values[0]) & (column() <= values[1])
        case _:
            argument = column() == values[0]
            for value in values[1:]:
                argument = argument | (column() == value)
    return ~argument if predicate.negated else argument


def _same(value: Any) -> Any:
    return value


def _from_pyorc(kind: TypeDescription) -> Callable[[Any], Any]:
    """Returns the function that turns a value of pyorc into a judge's."""
    inner = [_or_none(_from_pyorc(child)) for child in children(kind)]
    match kind.kind:
        case TypeKind.STRUCT:
            return lambda values: tuple([part(value) for part, value in zip(inner, values, strict=True)])
        case TypeKind.LIST:
            return lambda values: tuple(map(inner[0], values))
        case TypeKind.MAP:
            return lambda pairs: tuple([(inner[0](key), inner[1](value)) for key, value in pairs.items()])
        case TypeKind.UNION:
            return lambda value: (None, tuple(value) if isinstance(value, list) else value)
        case TypeKind.CHAR:
            return char_value
        case TypeKind.DECIMAL:
            return decimal_value
        case TypeKind.TIMESTAMP_INSTANT:
            return lambda text: f"{text}Z"
    return _same


def _or_none(convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return _same if convert is _same else lambda value: None if value is None else convert(value)


def _to_pyorc(kind: TypeDescription) -> Callable[[Any], Any]:
    """Returns the function that turns a judge's value into one of pyorc."""
    inner = [_to_pyorc(child) for child in children(kind)]

    def convert(value: Any) -> Any:
        if value is None:
            return None
        match kind.kind:
            case TypeKind.STRUCT:
                return tuple(part(item) for part, item in zip(inner, value, strict=True))
            case TypeKind.LIST:
                return list(map(inner[0], value))
            case TypeKind.MAP:
                return {inner[0](key): inner[1](item) for key, item in value}
            case TypeKind.UNION:
                return value[1]
        return value

    return convert


class PyarrowJudge:
    """ORC C++ as pyarrow calls it.

    It pushes no predicate down, its timestamps lie between 1677 and 2262, and a union that is NULL has the value None of
    the tag 0.
    """

    name = f"pyarrow {pa.__version__}"

    def schema(self, path: Path) -> str:
        """Returns the schema of a file, as pyorc prints it: pyarrow knows Arrow's types only."""
        return PYORC.schema(path)

    def rows(self, path: Path) -> list[Row]:
        """Returns all rows of a file in their order."""
        kind = parse_schema(self.schema(path))
        with _errors(self.name):
            table = pyarrow.orc.ORCFile(path).read()
            columns = [
                value
                for column, child in zip(table.columns, children(kind), strict=True)
                for value in [[value for chunk in column.chunks for value in _from_arrow(chunk, child)]]
            ]
        return list(zip(*columns, strict=True))

    def rows_matching(self, path: Path, predicate: Predicate) -> list[Row]:
        """Returns the rows that match."""
        schema = self.schema(path)
        return [row for row in self.rows(path) if predicate.matches(row, schema)]

    def answers(self, path: Path, predicates: Sequence[Predicate | None]) -> list[list[Row]]:
        """Returns the rows for each predicate; for None all of them."""
        schema, rows = self.schema(path), self.rows(path)
        return [
            [row for row in rows if predicate is None or predicate.matches(row, schema)] for predicate in predicates
        ]

    def write(self, path: Path, schema: str, rows: Sequence[Row], *, compress: str = "ZLIB", **options: Any) -> None:
        """Writes a file; ``options`` are those of ``pyarrow.orc.write_table``. A varchar or char becomes a string."""
        codec = "uncompressed" if compress == "NONE" else compress.lower()
        with _errors(self.name):
            pyarrow.orc.write_table(to_arrow(schema, rows), str(path), compression=codec, **options)


def to_arrow(schema: str, rows: Sequence[Row], *, hides: bool = False) -> pa.Table:
    """Returns rows of a schema as a table of Arrow.

    Args:
        hides: whether a struct that is NULL has fields that are not, as Arrow allows.

    Raises:
        Unreadable: Arrow has no such values, as for timestamps before 1677 or after 2262.
    """
    with _errors("pyarrow"):
        fields = parse_schema(schema).fields
        arrays = [_array(kind, [row[at] for row in rows], hides) for at, kind in enumerate(fields.values())]
        return pa.Table.from_arrays(arrays, names=list(fields))


def _array(kind: TypeDescription, values: Sequence[Any], hides: bool) -> pa.Array:
    match kind.kind:
        case TypeKind.STRUCT:
            below = next((value for value in values if value is not None), None) if hides else None
            below = below or (None,) * len(kind.fields)
            full = [below if value is None else value for value in values]
            arrays = [_array(child, [value[at] for value in full], hides) for at, child in enumerate(children(kind))]
            mask = pa.array([value is None for value in values], pa.bool_())
            return pa.StructArray.from_arrays(arrays, names=list(kind.fields), mask=mask)
        case TypeKind.LIST:
            items = [item for value in values if value is not None for item in value]
            return pa.ListArray.from_arrays(_offsets(values), _array(kind.type, items, hides))
        case TypeKind.MAP:
            pairs = [pair for value in values if value is not None for pair in value]
            keys = _array(kind.key, [key for key, _ in pairs], hides)
            return pa.MapArray.from_arrays(
                _offsets(values), keys, _array(kind.value, [item for _, item in pairs], hides)
            )
        case TypeKind.DATE:
            return pa.array([None if value is None else date_days(value) for value in values], pa.int32()).cast(
                pa.date32()
            )
        case TypeKind.TIMESTAMP | TypeKind.TIMESTAMP_INSTANT:
            counts = [None if value is None else time_nanos(value) for value in values]
            return pa.array(counts, pa.int64()).cast(_arrow_type(kind))
    return pa.array(values, _arrow_type(kind))


def _offsets(values: Sequence[Any]) -> pa.Array:
    """Returns where the items of each list begin; None marks a list that is NULL."""
    ends = list(accumulate(0 if value is None else len(value) for value in values))
    begins = [None if value is None else begin for value, begin in zip(values, [0, *ends], strict=False)]
    return pa.array([*begins, ends[-1] if ends else 0], pa.int32())


def _arrow_type(kind: TypeDescription) -> pa.DataType:
    if kind.kind == TypeKind.DECIMAL:
        return pa.decimal128(kind.precision, kind.scale)
    return _ARROW_TYPES[kind.kind]


_ARROW_TYPES = {
    TypeKind.BOOLEAN: pa.bool_(),
    TypeKind.BYTE: pa.int8(),
    TypeKind.SHORT: pa.int16(),
    TypeKind.INT: pa.int32(),
    TypeKind.LONG: pa.int64(),
    TypeKind.FLOAT: pa.float32(),
    TypeKind.DOUBLE: pa.float64(),
    TypeKind.STRING: pa.string(),
    TypeKind.VARCHAR: pa.string(),
    TypeKind.CHAR: pa.string(),
    TypeKind.BINARY: pa.binary(),
    TypeKind.DATE: pa.date32(),
    TypeKind.TIMESTAMP: pa.timestamp("ns"),
    TypeKind.TIMESTAMP_INSTANT: pa.timestamp("ns", "UTC"),
}


def _from_arrow(array: pa.Array, kind: TypeDescription) -> list[Any]:
    """Returns the values of an Arrow array."""
    match kind.kind:
        case TypeKind.STRUCT:
            fields = [_from_arrow(field, child) for field, child in zip(array.flatten(), children(kind), strict=True)]
            values: Iterable[Any] = zip(*fields, strict=True)
        case TypeKind.LIST:
            values = _slices(array, _from_arrow(array.values, kind.type))
        case TypeKind.MAP:
            pairs = zip(_from_arrow(array.keys, kind.key), _from_arrow(array.items, kind.value), strict=True)
            values = _slices(array, list(pairs))
        case TypeKind.UNION:
            fields = [_from_arrow(array.field(tag), child) for tag, child in enumerate(children(kind))]
            return [(tag, fields[tag][row]) for row, tag in enumerate(array.type_codes.to_pylist())]
        case TypeKind.TIMESTAMP | TypeKind.TIMESTAMP_INSTANT:
            end = "Z" if kind.kind == TypeKind.TIMESTAMP_INSTANT else ""
            assert array.type.unit == "ns"
            counts = array.view(pa.int64()).to_pylist()
            return [None if count is None else time_text(*divmod(count, 10**9)) + end for count in counts]
        case TypeKind.DATE:
            return [None if days is None else date_text(days) for days in array.view(pa.int32()).to_pylist()]
        case _:
            simple: dict[TypeKind, Callable[[Any], Any]] = {TypeKind.CHAR: char_value, TypeKind.DECIMAL: _decimal}
            convert = simple.get(kind.kind)
            plain = array.to_pylist()
            return plain if convert is None else [None if value is None else convert(value) for value in plain]
    return [value if valid else None for value, valid in zip(values, array.is_valid().to_pylist(), strict=True)]


def _decimal(value: Decimal) -> Decimal:
    return decimal_value(value)


def _slices(array: pa.Array, items: Sequence[Any]) -> Iterable[Row]:
    offsets = array.offsets.to_pylist()
    return (tuple(items[first:end]) for first, end in pairwise(offsets))


@contextmanager
def _errors(name: str) -> Any:
    """Turns an error of the library into ours."""
    try:
        yield
    except (pyorc.ParseError, pa.ArrowException, RuntimeError, ValueError, OverflowError) as error:
        raise Unreadable(f"{name}: {error}") from error


PYORC, PYARROW = PyorcJudge(), PyarrowJudge()

"""Data files of generated ACID files show every value to readers of Iceberg as it was written."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from pyiceberg.expressions import (
    And,
    BooleanExpression,
    EqualTo,
    GreaterThanOrEqual,
    In,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
)
from pyiceberg.expressions.visitors import _InclusiveMetricsEvaluator
from pyiceberg.typedef import Record
from pyorc import TypeDescription, TypeKind

from compactor.base.errors import NotSupported
from compactor.mirror.data_files import DetachedFile
from compactor.mirror.manifest_entries import data_file_entry
from tests.judges import Predicate, Row, trino_476
from tests.judges import shown as shown_rows
from tests.judges.examples import WRITERS, Column, File, columns, files, predicates, writers_of
from tests.judges.iceberg_java import iceberg_1_12, leaf_form, rows_of_arrow, time_form
from tests.judges.values import children, date_days, parse_schema, time_nanos
from tests.support.detached import FIRST_FILE, SmallTable, iceberg_schema, read_by_pyiceberg
from tests.support.sizes import sized

_EXAMPLES = int(os.environ.get("JUDGED_EXAMPLES", sized(short=8, whole=1000)))
_ACID = "struct<operation:int,originalTransaction:bigint,bucket:int,rowId:bigint,currentTransaction:bigint,row:{}>"
_FIRST, _LAST = "1677-09-22", "2262-04-11"  #: the days of the timestamps that PyIceberg reads
_numbers = itertools.count()


@st.composite
def _written(draw: st.DrawFn) -> tuple[list[Column], File, list[Predicate]]:
    # without unions, and without maps that have a key twice, of which Java shows one entry
    table = draw(columns().filter(lambda table: WRITERS["pyorc"] in writers_of(table)))
    return table, draw(files(table, itertools.count(), 0)), draw(st.lists(predicates(table), min_size=1, max_size=3))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data-files")


@settings(max_examples=_EXAMPLES, phases=(Phase.generate, Phase.shrink))
@given(written=_written(), zone=st.sampled_from(("UTC", "America/New_York")))
def test_readers_of_iceberg_show_what_was_written(
    folder: Path, written: tuple[list[Column], File, list[Predicate]], zone: str
) -> None:
    table, file, filters = written
    row_type = f"struct<{','.join(f'{column.name}:{column.kind}' for column in table)}>"
    kind = parse_schema(row_type)
    small = SmallTable(root=folder / str(next(_numbers)), row_type=row_type)
    path = small.root / "delta_0000001_0000001_0000" / "bucket_00000"
    path.parent.mkdir(parents=True)
    keyed = [(0, 1, FIRST_FILE, at, 1, row) for at, row in enumerate(file.rows)]
    WRITERS[file.writer].write(path, _ACID.format(file.row_type), keyed, **file.options)
    small.add(path)
    rows = [(*row, *(None,) * (len(table) - len(row))) for row in file.rows]
    expected = [_form(row, kind) for row in rows]
    refusal = ""
    try:
        detached = small.detach(timestamps="us")
    except NotSupported as error:
        refusal = str(error)
        if "Trino shows" in refusal:
            assert re.search(r"'1[0-9]{3}-[0-9-]{5} [0-9:]{8}\.000(?!000)[0-9]{6}", repr(rows)), refusal
            return
        detached = small.detach(timestamps="us", for_pyiceberg=False)
    assert detached is not None
    if refusal:
        assert _is_refused(rows, kind, refusal), refusal
    else:
        assert rows_of_arrow(read_by_pyiceberg(small.schema, [detached])) == expected
    shown = iceberg_1_12(zone).rows_of_file(detached.path, small.schema.model_dump_json())
    # ORC Java takes a batch of zeros of both signs for one repeated value
    assert list(map(_without_signs, shown)) == list(map(_without_signs, expected))
    assert shown_rows(trino_476().rows(Path(detached.path))) == shown_rows(map(_cut, file.rows))
    for predicate in filters:
        _must_lose_nothing(small, detached, [_cut(row) for row in rows], predicate, row_type)


def _must_lose_nothing(
    small: SmallTable, detached: DetachedFile, rows: Sequence[Row], predicate: Predicate, row_type: str
) -> None:
    """Checks that neither bounds nor indexes make a reader skip a row that a predicate finds."""
    expression = _expression(predicate, row_type)
    matching = [row[0] for row in rows if replace(predicate, values=_cut(predicate.values)).matches(row, row_type)]
    if expression is None or not matching:
        return
    entry = data_file_entry(detached.path, detached.length, detached.rows, detached.figures, Record(), 0)
    assert _InclusiveMetricsEvaluator(small.schema, expression).eval(entry), expression
    text = expression.model_dump_json()
    shown = iceberg_1_12().rows_of_file(detached.path, small.schema.model_dump_json(), text)
    numbers = {int(row.removeprefix("(").partition(",")[0].removesuffix(")")) for row in shown}
    assert numbers.issuperset(matching), (predicate, text)


def _expression(predicate: Predicate, row_type: str) -> BooleanExpression | None:
    """Returns a predicate for Iceberg's readers; None if they have none like it."""
    kind: TypeDescription = parse_schema(row_type)
    for part in predicate.column.split("."):
        kind = kind.fields[part]
    if kind.kind in (TypeKind.FLOAT, TypeKind.DOUBLE) or predicate.operator == "<=>":
        return None  # SQL and Iceberg disagree about NaN
    term, values = predicate.column, [_literal(value, kind) for value in predicate.values]
    match predicate.operator:
        case "=":
            expression: BooleanExpression = EqualTo(term, values[0])
        case "<":
            expression = LessThan(term, values[0])
        case "<=":
            expression = LessThanOrEqual(term, values[0])
        case "in":
            expression = In(term, values)
        case "between":
            expression = And(GreaterThanOrEqual(term, values[0]), LessThanOrEqual(term, values[1]))
        case _:
            expression = IsNull(term)
    return Not(expression) if predicate.negated else expression


def _literal(value: Any, kind: TypeDescription) -> Any:
    if kind.kind in (TypeKind.TIMESTAMP, TypeKind.TIMESTAMP_INSTANT):
        text = value.removesuffix("Z").replace(" ", "T")[:26]
        return f"{text}+00:00" if kind.kind is TypeKind.TIMESTAMP_INSTANT else text
    if kind.kind is TypeKind.DECIMAL:
        return format(value, f".{kind.scale}f")
    return value.rstrip(" ") if kind.kind is TypeKind.CHAR else value


def _cut(value: Any) -> Any:
    """Returns a value with its timestamps cut to microseconds."""
    if isinstance(value, tuple):
        return tuple(map(_cut, value))
    if isinstance(value, str) and (match := re.fullmatch(r"([\d-]{10} [\d:]{8}\.\d{6})\d{3}(Z?)", value)):
        return f"{match[1]}000{match[2]}"
    return value


def _is_refused(rows: Sequence[Row], kind: TypeDescription, message: str) -> bool:
    """Tells whether a value is one that PyIceberg does not read or shows differently."""
    days = re.findall(r"'(\d{4}-\d\d-\d\d) ", repr(rows))
    if "PyIceberg reads timestamps" in message:
        return any(not _FIRST <= day <= _LAST for day in days)
    return (
        "and PyIceberg shows an empty one" in message
        and re.search("(array<|map<[a-z]+,)struct<", str(kind)) is not None
    )


def _without_signs(text: str) -> str:
    return text.replace("double 8000000000000000", "double 0").replace("float 80000000", "float 0")


def _form(value: Any, kind: TypeDescription) -> str:
    """Returns a value as the judge shows it: timestamps cut to microseconds, chars without blanks."""
    if value is None:
        return "NULL"
    inner = children(kind)
    match kind.kind:
        case TypeKind.STRUCT:
            fields = (*value, *(None,) * (len(inner) - len(value)))
            return f"({', '.join(_form(part, child) for part, child in zip(fields, inner, strict=True))})"
        case TypeKind.LIST:
            return f"[{', '.join(_form(part, inner[0]) for part in value)}]"
        case TypeKind.MAP:
            pairs = sorted(f"{_form(key, inner[0])}: {_form(item, inner[1])}" for key, item in value)
            return f"{{{', '.join(pairs)}}}"
        case TypeKind.DATE:
            return f"day {date_days(value)}"
        case TypeKind.TIMESTAMP | TypeKind.TIMESTAMP_INSTANT:
            return time_form(time_nanos(value) // 1000 * 1000)
        case TypeKind.DECIMAL:
            return format(value, f".{kind.scale}f")
        case TypeKind.CHAR:
            return leaf_form(value.rstrip(" "))
    return leaf_form(value, single=kind.kind is TypeKind.FLOAT)


@pytest.mark.parametrize("old", ["tinyint", "smallint", "int"])
def test_integers_of_any_size_are_read_after_widening(tmp_path: Path, old: str) -> None:
    """A file that was written before Hive's column was widened is read by the schema of afterwards."""
    small = SmallTable(root=tmp_path / "t", row_type=f"struct<a:{old},b:array<{old}>>")
    small.write([(5, [-5, None]), (None, None)])
    detached = small.detach()
    assert detached is not None
    for wider in (old, "int", "bigint"):
        schema = iceberg_schema(f"struct<a:{wider},b:array<{wider}>>")
        expected = ["(5, [-5, NULL])", "(NULL, NULL)"]
        assert rows_of_arrow(read_by_pyiceberg(schema, [detached])) == expected
        assert iceberg_1_12().rows_of_file(detached.path, schema.model_dump_json()) == expected

"""Messages travel whole, and nothing else is understood."""

from __future__ import annotations

import dataclasses
import datetime as dt
import math
import typing
from dataclasses import replace
from decimal import Decimal
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compactor.acid.names import DeltaKind
from compactor.acid.row_figures import ColumnFigures, RowFigures
from compactor.acid.write_ids import LaterWriteIdList, ValidWriteIdList
from compactor.base.errors import BadMessage
from compactor.base.ids import WriteId
from compactor.rewrite.plan.unit import Output
from compactor.rewrite.run.failure import Failure
from compactor.rows.inputs import Input
from compactor.spark_tables import message_bytes
from compactor.spark_tables.driver_jvm import Process
from compactor.spark_tables.keeper_requests import (
    ANSWERS,
    BeginWrite,
    CheckSnapshot,
    CommitWrite,
    Creation,
    Hold,
    MetastorePlace,
    PlannedScan,
    PlanScan,
    Request,
    SeenCommits,
    Taken,
)
from compactor.spark_tables.message_bytes import KINDS, decode, encode
from compactor.storage.capabilities import KnownBytes, TakenRange, Upload
from compactor.storage.store_options import StoreOptions
from compactor.tables.filters import conditions as c
from compactor.tables.filters.binding import bind
from compactor.tables.reading.scan_tasks import ScanPlan, ScanTask
from compactor.tables.writing.writer_messages import WrittenPart
from tests.support.sizes import sized

SCHEMA = pa.schema(
    [
        pa.field("b", pa.bool_()),
        pa.field("i", pa.int64(), nullable=False),
        pa.field("n", pa.decimal128(38, 2)),
        pa.field("x", pa.float64()),
        pa.field("s", pa.string()),
        pa.field("c", pa.string()),
        pa.field("d", pa.date32()),
        pa.field("t", pa.timestamp("us")),
        pa.field("l", pa.list_(pa.struct([pa.field("a", pa.int32())]))),
    ]
)
FILTERS = (
    "i > 10 AND NOT (s = 'ä\"' OR x <= 1.5)",
    "b = true OR b IS NULL",
    "n = 123456789012345678901234567890123456.78",
    "i IN (1, 2, NULL) AND s IN ('a', 'b')",
    "i = n",
    "s LIKE 'a\\%%_'",
    "c = 'a'",
    "d >= '2026-02-03' AND t < '9999-12-31 23:59:59.999999'",
    "i > 99999999999999999999",
    "l IS NOT NULL",
    "x > 1 AND x < 2 AND x <> 1.25",
)
WRITE_IDS = ValidWriteIdList(
    table="d.t", high_watermark=WriteId(2**62), open=frozenset({WriteId(3)}), aborted=frozenset({WriteId(5)})
)
STORES = StoreOptions.from_tables({"hdfs://nn": {"token": "t"}})


def task(number: int, partition: str | None = None, **constants: pa.Scalar) -> ScanTask:
    return ScanTask(
        location="/w/t",
        number=number,
        inserts=(
            Input(path="base_3/bucket_00000", length=9, write_id=WriteId(3)),
            Input(path="000_0", length=2, raw=True),
        ),
        deletes=(Input(path="delete_delta_4_4/bucket_00000", length=7, statement_id=2, has_flush_length=True),),
        partition=partition,
        constants=constants,
        span=(3, 2**40) if number == 1 else None,
    )


def scan(condition: c.Condition | None = None, *tasks: ScanTask) -> PlannedScan:
    plan = ScanPlan(
        table="d.t",
        txn=7,
        write_ids=WRITE_IDS,
        row_type="struct<i:bigint>",
        names=("i", "s"),
        schema=SCHEMA,
        comparable=SCHEMA,
        columns=(0, 3),
        filter_columns=(2,),
        condition=condition,
        row_ids=True,
        default_zone="Asia/Tokyo",
        is_gregorian=True,
        tasks=tasks,
    )
    return PlannedScan(
        table_id=7, hold=Hold(name="h", txn=7), plan=plan, stores=STORES, padded=("c",), has_files=True, shown=SCHEMA
    )


def travelled(message: Any) -> Any:
    return decode(encode(message), [type(message)])


def is_whole(scan: PlannedScan) -> bool:
    there = travelled(scan)
    for field in dataclasses.fields(ScanPlan):
        assert getattr(there.plan, field.name) == getattr(scan.plan, field.name), field.name
        assert type(getattr(there.plan, field.name)) is type(getattr(scan.plan, field.name)), field.name
    return bool(there == scan)


def test_every_request_has_one_kind_of_answer_and_each_is_on_the_list() -> None:
    requests = typing.get_args(Request)
    assert set(ANSWERS) == set(requests)
    assert set(KINDS.values()) == {*requests, *ANSWERS.values(), Taken, Failure}
    for kind in KINDS.values():
        message_bytes._decoder(kind)


def test_requests_are_whole() -> None:
    place = MetastorePlace(metastore="m", config="/c.toml", application="app")
    creation = Creation(columns=(("i", "bigint"),), partitioned_by=("p",), buckets=2, properties=(("a", "b"),))
    past = SeenCommits(table_id=2**63, write_ids=str(WRITE_IDS))
    assert travelled(
        PlanScan(place=place, table="d.t", columns=("i",), between=(past, past), reader=Process(pid=1, started=2))
    )
    for request in (
        PlanScan(place=place, table="d.t", columns=("i",), row_filter="i > 1", between=(past, past)),
        PlanScan(place=place, table="d.t", reader=Process(pid=1, started=2), snapshot="s"),
        BeginWrite(place=place, table="d.ü", overwrite=True, stream="s", batch=0, creates=creation),
    ):
        assert travelled(request) == request


def test_what_writers_have_staged_is_whole() -> None:
    columns = (
        ColumnFigures(name="i", type="bigint", values=3, low=-(2**63), high=2**63 - 1),
        ColumnFigures(name="n", type="decimal(38,0)", values=3, low=Decimal("-1E+37"), high=Decimal("9.5"), trues=None),
        ColumnFigures(name="x", type="double", values=3, low=-math.inf, high=2.0, trues=1),
    )
    output = Output(
        kind=DeltaKind.DELETE,
        path="/w/t/.staged/bucket_00000",
        number=0,
        rows=3,
        length=2**40,
        crc32=2**32 - 1,
        upload=Upload(
            path="s3://b/k", id="u", parts=("1", "2"), length=3, ends=(KnownBytes(start=0, content=b"\xff"),)
        ),
        ranges=(TakenRange(position=0, length=1, source="s", offset=2, tag="e", last=b"\x00"),),
        row_figures=RowFigures(rows=3, raw_size=30, columns=columns),
    )
    part = WrittenPart(partition="p=1", statement_id=0, directory="/w", outputs=(output,), kind=DeltaKind.DELETE)
    request = CommitWrite(hold=Hold(name="h", txn=7), parts=(part, part), batch=3)
    assert travelled(request) == request


@pytest.mark.parametrize("text", FILTERS)
def test_a_condition_is_whole(text: str) -> None:
    condition = bind(text, SCHEMA, chars=["c"])
    assert is_whole(scan(condition, task(0)))
    assert repr(travelled(scan(condition)).plan.condition) == repr(condition)


@pytest.mark.parametrize("value", [True, 0, -(2**63), 2**64, -(2**200), 0.0, Decimal("1.50"), b"\xff", b""])
def test_a_value_keeps_its_type(value: c.Value) -> None:
    column = c.FilterColumn(name="i", kind=c.ValueKind.NUMBER, type=pa.int64())
    there = travelled(scan(c.Compared(column=column, operator="=", value=value))).plan.condition.value
    assert (there, type(there)) == (value, type(value))


def test_values_of_partition_columns_are_whole_and_shared() -> None:
    exact = pa.struct([pa.field("seconds", pa.int64()), pa.field("nanos", pa.int32())])

    def constants(day: int, text: str | None) -> dict[str, pa.Scalar]:
        return {
            "d": pa.scalar(dt.date(2026, 2, day), pa.date32()),
            "s": pa.scalar(text, pa.string()),
            "n": pa.scalar(Decimal("1.50"), pa.decimal128(10, 2)),
            "t": pa.scalar({"seconds": day, "nanos": 1} if text else None, exact),
        }

    first, second = constants(1, "ä"), constants(2, None)
    tasks = (task(0, "d=1", **first), task(1, "d=1", **first), task(0, "d=2", **second))
    assert is_whole(scan(None, *tasks))
    there = travelled(scan(None, *tasks)).plan.tasks
    assert there[0].constants is there[1].constants


def test_what_a_stream_has_not_seen_stays_that() -> None:
    plan = scan(None, task(0)).plan
    later = WRITE_IDS.since(ValidWriteIdList(table=None, high_watermark=WriteId(-1)))
    there = travelled(replace(scan(), plan=replace(plan, write_ids=later)))
    assert isinstance(there.plan.write_ids, LaterWriteIdList)
    assert there.plan.write_ids == later


def test_every_field_of_a_plan_travels() -> None:
    """Fails for a field that is new: give it a value in ``scan`` above, which ``is_whole`` compares."""
    defaults = [
        field.name
        for kind, value in ((ScanPlan, scan(bind("i > 1", SCHEMA), task(0)).plan), (PlannedScan, scan()))
        for field in dataclasses.fields(kind)
        if getattr(value, field.name) == field.default
    ]
    assert defaults == []


@pytest.mark.parametrize(
    "message", [object(), [1], {"a": 1}, 1.5, b"a", Input(path="p", length=1), Hold(name="h", txn=1)]
)
def test_what_is_not_on_the_list_is_not_sent(message: object) -> None:
    with pytest.raises(BadMessage, match=f"a message of type {type(message).__name__}; known are PlanScan, "):
        encode(message)


def test_a_class_of_the_same_name_is_not_the_same() -> None:
    with pytest.raises(BadMessage, match="of type Taken"):
        encode(type("Taken", (), {})())


def test_what_is_too_long_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_bytes, "LONGEST", 100)
    with pytest.raises(BadMessage, match=r"a message str has 20\d bytes; at most 100 are sent"):
        encode("a" * 200)


def packed(kind: str, content: object) -> bytes:
    return msgspec.msgpack.encode([kind, content])


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "cannot be understood"),
        (b"\x93", "cannot be understood"),
        (encode(Taken()) + b"\x00", "cannot be understood"),
        (packed("Unheard", {}), "a message 'Unheard'; expected PlanScan or CheckSnapshot"),
        (packed("Taken", {}), "a message 'Taken'"),
        (packed("a" * 10_000, {}), "'a{100}'"),
        (packed("CheckSnapshot", {}), "missing required field `hold`"),
        (packed("CheckSnapshot", {"hold": {"name": "h", "txn": "7"}}), "Expected `int`, got `str`"),
        (packed("CheckSnapshot", {"hold": [7]}), "Expected `object`"),
        (packed("PlanScan", {"place": {}, "table": None}), "Expected `str`, got `None`"),
        (b"\x92\xaaPlanScan" + b"\x91" * 100_000 + b"\xc0", "cannot be understood"),
        (
            msgspec.msgpack.encode(["CheckSnapshot", msgspec.Raw(b"\x81\xa4more" + b"\x91" * 100_000 + b"\xc0")]),
            "understood",
        ),
    ],
    ids=range(12),
)
def test_what_is_not_understood_is_refused(data: bytes, message: str) -> None:
    with pytest.raises(BadMessage, match=message):
        decode(data, [PlanScan, CheckSnapshot])


@pytest.mark.parametrize(
    "changed",
    [
        {"condition": ["compared", "none", "=", 1]},
        {"condition": ["compared", "i", "="]},
        {"condition": ["compared", "i", "=", ["integer", "x"]]},
        {"condition": ["compared", "i", "=", ["integer", "1" * 5000]]},
        {"condition": ["compared", "i", "=", ["decimal", "x"]]},
        {"condition": ["compared", "i", "=", {"a": 1}]},
        {"condition": ["__class__", "i"]},
        {"condition": {"a": 1}},
        {"condition": "i > 1"},
        {"condition_kinds": []},
        {"condition_kinds": ["nothing"]},
        {"condition_columns": b"\xff" * 100},
        {"schema": 7},
        {"schema": "text"},
        {"constants": b"\xff" * 100},
        {"constants": b"\x01"},
        {"more": 1},
        {"tasks": [{"location": "/w"}]},
        {"write_ids": {"table": "t", "high_watermark": 1, "open": "a"}},
    ],
    ids=lambda changed: " ".join(changed),
)
def test_a_plan_that_is_not_one_is_refused(changed: dict[str, Any]) -> None:
    kind, content = msgspec.msgpack.decode(encode(scan(bind("i > 1", SCHEMA), task(0, "p=1", p=pa.scalar(1)))))
    content["plan"] |= changed
    with pytest.raises(BadMessage, match="cannot be understood"):
        decode(packed(kind, content), [PlannedScan])


def test_a_condition_that_is_too_deep_is_refused() -> None:
    kind, content = msgspec.msgpack.decode(encode(scan()))
    deep: object = ["constant", True]
    for _ in range(500):
        deep = ["not", deep]
    content["plan"]["condition"] = deep
    with pytest.raises(BadMessage, match="more than 400 levels"):
        decode(packed(kind, content), [PlannedScan])


def test_the_deepest_filter_travels() -> None:
    text = "NOT (" * 49 + "i > 1" + ")" * 49
    assert is_whole(scan(bind(text, SCHEMA)))


_FUZZING = settings(max_examples=sized(short=150, whole=3_000), deadline=None)
_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(max_size=9)
    | st.binary(max_size=9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner, max_size=4),
    max_leaves=12,
)


def is_refused_or_understood(data: bytes) -> None:
    kinds = list(KINDS.values())
    try:
        message = decode(data, kinds)
    except BadMessage:
        return
    assert type(message) in kinds


@_FUZZING
@given(st.binary(max_size=200))
def test_any_bytes_are_refused_or_understood(data: bytes) -> None:
    is_refused_or_understood(data)


@_FUZZING
@given(st.sampled_from(sorted(KINDS)), _VALUES)
def test_any_content_of_a_known_kind_is_refused_or_understood(kind: str, content: object) -> None:
    is_refused_or_understood(packed(kind, content))


@_FUZZING
@given(st.data())
def test_a_message_that_was_damaged_is_refused_or_understood(data: st.DataObject) -> None:
    whole = data.draw(st.sampled_from(MESSAGES))
    damaged = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    end = data.draw(st.integers(1, len(damaged)))
    is_refused_or_understood(bytes(damaged[:end]))
    is_refused_or_understood(bytes(damaged))


MESSAGES = [
    encode(scan(bind(FILTERS[0], SCHEMA), task(0, "p=1", p=pa.scalar(1)))),
    encode(PlanScan(place=MetastorePlace(), table="d.t", columns=("i",), row_filter="i > 1")),
    encode(
        BeginWrite(place=MetastorePlace(), table="d.t", overwrite=True, creates=Creation(columns=(("i", "bigint"),)))
    ),
]

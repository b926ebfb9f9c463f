"""Encodes messages as MessagePack: a closed list of types, checked field by field, without pickle."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from decimal import Decimal
from functools import cache
from typing import Any, TypeAlias, get_args, get_type_hints

import msgspec
import pyarrow as pa

from compactor.acid.write_ids import LaterWriteIdList, ValidWriteIdList
from compactor.base.errors import BadMessage
from compactor.rewrite.run.failure import Failure
from compactor.spark_tables.keeper_requests import ANSWERS, PlannedScan, Request, Taken
from compactor.spark_tables.local_socket import LONGEST
from compactor.tables.filters import conditions as c
from compactor.tables.filters.expressions import DEEPEST
from compactor.tables.reading.scan_tasks import ScanPlan, ScanTask

_Packed: TypeAlias = Any  #: lists, numbers, texts and bytes
#: Every kind of message; a test compares it with the requests and their answers.
KINDS: Mapping[str, type] = {kind.__name__: kind for kind in (*get_args(Request), *ANSWERS.values(), Taken, Failure)}
_NUMBERS = range(-(2**63), 2**64)  #: MessagePack's integers
#: Levels of nested AND and OR. A bound condition has at most one for each level of its text, and one for each NOT.
_DEEPEST = 4 * DEEPEST
#: What msgspec, pyarrow and Python raise on malformed bytes
_NOT_UNDERSTOOD = (
    *(msgspec.MsgspecError, pa.ArrowException, ValueError, TypeError, LookupError, ArithmeticError),
    *(RuntimeError, OSError, StopIteration, MemoryError),
)


class _Message(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    kind: str
    content: msgspec.Raw


def encode(message: object) -> bytes:
    """Returns a message as bytes.

    Raises:
        BadMessage: its type is unknown, or it is too long.
    """
    kind = type(message)
    if KINDS.get(kind.__name__) is not kind:
        raise BadMessage(f"a message of type {kind.__name__}; known are {', '.join(KINDS)}")
    try:
        content = _pack_scan(message) if isinstance(message, PlannedScan) else message
        data = msgspec.msgpack.encode([kind.__name__, msgspec.Raw(msgspec.msgpack.encode(content, enc_hook=_pack))])
    except (msgspec.MsgspecError, pa.ArrowException, TypeError, ValueError, OverflowError, RuntimeError) as error:
        raise BadMessage(f"a message {kind.__name__} cannot be sent: {type(error).__name__}: {error}") from error
    if len(data) > LONGEST:
        raise BadMessage(
            f"a message {kind.__name__} has {len(data)} bytes; at most {LONGEST} are sent: read or write fewer files at once"
        )
    return data


def decode(data: bytes, kinds: Iterable[type]) -> Any:
    """Returns the message in ``data``, which has one of the types ``kinds``.

    Raises:
        BadMessage: it has another type, or a field does not have its type.
    """
    known = {kind.__name__: kind for kind in kinds}
    try:
        message = msgspec.msgpack.decode(data, type=_Message)
        if message.kind not in known:
            raise BadMessage(f"a message {message.kind[:100]!r}; expected {' or '.join(known)}")
        kind = known[message.kind]
        content = _decoder(kind).decode(message.content)
        return _unpack_scan(content) if kind is PlannedScan else content
    except _NOT_UNDERSTOOD as error:
        raise BadMessage(f"a message that cannot be understood: {type(error).__name__}: {error}") from error


@cache
def _decoder(kind: Any) -> msgspec.msgpack.Decoder[Any]:
    return msgspec.msgpack.Decoder(_SCAN if kind is PlannedScan else kind, dec_hook=_unpack)


def _pack(value: object) -> _Packed:
    if isinstance(value, pa.Schema):
        return value.serialize().to_pybytes()
    raise NotImplementedError(f"a value of type {type(value).__name__}")


def _unpack(kind: type, packed: _Packed) -> object:
    if kind is pa.Schema and isinstance(packed, bytes):
        return pa.ipc.read_schema(pa.BufferReader(packed))
    raise ValueError(f"{type(packed).__name__} in the place of {kind.__name__}")


def _define_transport(kind: type, **others: Any) -> Any:
    """Returns a type with the fields of ``kind`` for the wire.

    There the fields ``others`` have other types.
    """
    return msgspec.defstruct(
        f"Travelling{kind.__name__}",
        [*({**get_type_hints(kind), **others}.items())],
        kw_only=True,
        forbid_unknown_fields=True,
    )


# Three fields of a plan have types that MessagePack does not have: its write IDs are of one of two types, its condition is a
# tree, and the values of partition columns are Arrow scalars. The values of all tasks travel as one Arrow batch.
_PLAN = _define_transport(
    ScanPlan,
    write_ids=ValidWriteIdList,
    earlier=ValidWriteIdList | None,
    condition=Any,
    condition_columns=pa.Schema,
    condition_kinds=tuple[c.ValueKind, ...],
    constants=bytes,
)
_SCAN = _define_transport(PlannedScan, plan=_PLAN)


def _pack_scan(scan: PlannedScan) -> Any:
    plan = scan.plan
    columns = {} if plan.condition is None else c.find_columns(plan.condition)
    packed = _field_values(plan) | {
        "earlier": plan.write_ids.earlier if isinstance(plan.write_ids, LaterWriteIdList) else None,
        "condition": None if plan.condition is None else _pack_condition(plan.condition),
        "condition_columns": pa.schema([pa.field(name, column.type) for name, column in columns.items()]),
        "condition_kinds": tuple(column.kind for column in columns.values()),
        "constants": _pack_constants(plan.tasks),
        "tasks": tuple(replace(task, constants={}) if task.constants else task for task in plan.tasks),
    }
    return _SCAN(**_field_values(scan) | {"plan": _PLAN(**packed)})


def _unpack_scan(packed: Any) -> PlannedScan:
    plan = packed.plan
    write_ids = plan.write_ids if plan.earlier is None else plan.write_ids.since(plan.earlier)
    columns = {
        field.name: c.FilterColumn(name=field.name, kind=kind, type=field.type)
        for field, kind in zip(plan.condition_columns, plan.condition_kinds, strict=True)
    }
    condition = None if plan.condition is None else _unpack_condition(plan.condition, columns)
    tasks = _unpack_constants(plan.tasks, plan.constants)
    others = {"write_ids": write_ids, "condition": condition, "tasks": tasks}
    whole = ScanPlan(**{field.name: getattr(plan, field.name) for field in fields(ScanPlan)} | others)
    return PlannedScan(**{field.name: getattr(packed, field.name) for field in fields(PlannedScan)} | {"plan": whole})


def _field_values(value: Any) -> dict[str, Any]:
    return {field.name: getattr(value, field.name) for field in fields(value)}


def _pack_constants(tasks: Iterable[ScanTask]) -> bytes:
    """Returns the values of partition columns as an Arrow stream.

    It has a row for each partition in the order of tasks.
    """
    rows = list({task.partition: task.constants for task in tasks if task.constants}.values())
    if not rows:
        return b""
    batch = pa.record_batch(
        {name: pa.array([row[name] for row in rows], first.type) for name, first in rows[0].items()}
    )
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]  # of pyarrow


def _unpack_constants(tasks: tuple[ScanTask, ...], packed: bytes) -> tuple[ScanTask, ...]:
    if not packed:
        return tasks
    with pa.ipc.open_stream(packed) as stream:
        batch = stream.read_next_batch()
    batch.validate(full=True)
    partitions = list(dict.fromkeys(task.partition for task in tasks))
    if batch.num_rows != len(partitions):
        raise ValueError(f"the constants of {batch.num_rows} partitions; the tasks have {len(partitions)}")
    constants = {
        partition: {name: column[row] for name, column in zip(batch.schema.names, batch.columns, strict=True)}
        for row, partition in enumerate(partitions)
    }
    return tuple(replace(task, constants=constants[task.partition]) for task in tasks)


def _pack_condition(condition: c.Condition) -> _Packed:
    """Returns a condition as a list: its kind and its fields, for example ``["compared", "id", "=", 7]``."""
    match condition:
        case c.Compared(column=column, operator=operator, value=value):
            return ["compared", column.name, operator, _pack_value(value)]
        case c.Pair(left=left, operator=operator, right=right):
            return ["pair", left.name, operator, right.name]
        case c.OneOf(column=column, values=values, or_null=or_null):
            return ["one of", column.name, [_pack_value(value) for value in values], or_null]
        case c.Missing(column=column):
            return ["missing", column.name]
        case c.Matches(column=column, pattern=pattern):
            return ["matches", column.name, pattern]
        case c.Settled(column=column, value=value):
            return ["settled", column.name, value]
        case c.Constant(value=value):
            return ["constant", value]
        case c.Negation(part=part):
            return ["not", _pack_condition(part)]
        case c.All(parts=parts):
            return ["all", [_pack_condition(part) for part in parts]]
        case c.Any(parts=parts):
            return ["any", [_pack_condition(part) for part in parts]]


def _unpack_condition(packed: _Packed, columns: Mapping[str, c.FilterColumn], depth: int = 0) -> c.Condition:
    if depth > _DEEPEST:
        raise ValueError(f"a condition has more than {_DEEPEST} levels")
    match packed:
        case ["compared", str(name), str(operator), value]:
            return c.Compared(column=columns[name], operator=operator, value=_unpack_value(value))
        case ["pair", str(left), str(operator), str(right)]:
            return c.Pair(left=columns[left], operator=operator, right=columns[right])
        case ["one of", str(name), list(values), bool(or_null)]:
            return c.OneOf(column=columns[name], values=tuple(map(_unpack_value, values)), or_null=or_null)
        case ["missing", str(name)]:
            return c.Missing(column=columns[name])
        case ["matches", str(name), str(pattern)]:
            return c.Matches(column=columns[name], pattern=pattern)
        case ["settled", str(name), bool(value)]:
            return c.Settled(column=columns[name], value=value)
        case ["constant", bool() | None as value]:
            return c.Constant(value=value)
        case ["not", part]:
            return c.Negation(part=_unpack_condition(part, columns, depth + 1))
        case ["all", list(parts)]:
            return c.All(parts=tuple(_unpack_condition(part, columns, depth + 1) for part in parts))
        case ["any", list(parts)]:
            return c.Any(parts=tuple(_unpack_condition(part, columns, depth + 1) for part in parts))
    raise ValueError(f"a condition of an unknown kind: {str(packed)[:100]}")


def _pack_value(value: c.Value) -> _Packed:
    if isinstance(value, Decimal):
        return ["decimal", str(value)]
    if isinstance(value, int) and value not in _NUMBERS:
        return ["integer", str(value)]
    return value


def _unpack_value(packed: _Packed) -> c.Value:
    match packed:
        case bool() | int() | float() | bytes():
            return packed
        case ["decimal", str(text)]:
            return Decimal(text)
        case ["integer", str(text)]:
            return int(text)
    raise ValueError(f"a value of an unknown kind: {str(packed)[:100]}")

"""Whole files of rows to damage: of ORC's C++ library in every codec, of Hive's Java writer, and of delete events."""

from __future__ import annotations

import datetime
import io
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import pyorc

BUCKET = 1 << 29
ROWS = 300  #: of each file that is made here, in three stripes
ROW_TYPE = (
    "struct<a:int,b:string,c:double,d:decimal(10,2),e:timestamp,f:array<int>,g:map<string,bigint>,h:boolean,i:date,"
    "j:tinyint,k:binary,l:varchar(9),m:decimal(30,4),n:struct<x:float,y:smallint>>"
)
SCHEMA = (
    "struct<operation:int,originalTransaction:bigint,bucket:int,rowId:bigint,currentTransaction:bigint,row:{}>".format
)
_CODECS = ("NONE", "ZLIB", "SNAPPY", "LZ4", "ZSTD")
_FIXTURES = Path(__file__).parents[1] / "fixtures"
_OF_HIVE = {
    "hive4": "hive-4.1/g4_stripes/s3_major/g4_stripes/base_0000003_v0000013/bucket_00000",
    "hive4_types": "hive-4.1/f6_types/s3_major/f6_types/base_0000005_v0000151/bucket_00000",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Victim:
    """A whole file; ``deletes`` says that it holds delete events for rows of ``row_type``."""

    name: str
    data: bytes
    deletes: bool = False


@cache
def victims() -> tuple[Victim, ...]:
    """All of them; the same bytes in every run."""
    made = [Victim(name=f"rows_{codec.lower()}", data=rows_file(codec)) for codec in _CODECS]
    made += [
        Victim(name=f"deletes_{codec.lower()}", data=deletes_file(codec), deletes=True) for codec in ("NONE", "ZLIB")
    ]
    made += [Victim(name=name, data=(_FIXTURES / path).read_bytes()) for name, path in _OF_HIVE.items()]
    return tuple(made)


def row_of(n: int) -> tuple[Any, ...] | None:
    """Row ``n`` of ``ROW_TYPE``, now and then without a value; strings both from dictionaries and not."""
    if n % 97 == 5:
        return (None,) * 14
    moment = datetime.datetime(2001, 2, 3, tzinfo=datetime.UTC) + datetime.timedelta(seconds=n * 977)
    return (
        n * 7919 % 1013,
        f"text {n * 104729 % 9973}" if n % 3 else None,
        n / 7,
        Decimal(n * 13) / 100,
        moment,
        list(range(n % 4)),
        {f"k{n % 5}": n, "z": -n},
        n % 2 == 0,
        datetime.date(2020, 1, 1) + datetime.timedelta(days=n % 50),
        n % 100,
        bytes([n % 256]) * (n % 6),
        ("red", "green", "blue")[n % 3],
        Decimal(n**5) / 10000,
        (n / 2, n),
    )


def rows_file(codec: str) -> bytes:
    """``ROWS`` insert events of write ID 1."""
    row_type = ROW_TYPE
    return _written(codec, row_type, [(0, 1, BUCKET, n, 1, row_of(n)) for n in range(ROWS)])


def deletes_file(codec: str) -> bytes:
    """Delete events of write ID 5 for every seventh row of write ID 1."""
    return _written(codec, ROW_TYPE, [(2, 1, BUCKET, n, 5, None) for n in range(0, ROWS, 7)])


def deletes_of(row_type: str, keys: list[tuple[int, int, int]]) -> bytes:
    """Delete events of write ID 5 for rows with these keys."""
    return _written("ZLIB", row_type, [(2, *key, 5, None) for key in keys])


def second_file() -> bytes:
    """A few rows of write ID 4 that no mutation touches."""
    return _written("ZLIB", ROW_TYPE, [(0, 4, BUCKET, n, 4, row_of(n)) for n in range(50)])


def _written(codec: str, row_type: str, events: list[tuple[Any, ...]]) -> bytes:
    file = io.BytesIO()
    with pyorc.Writer(
        file,
        SCHEMA(row_type),
        batch_size=max(1, len(events) // 3),
        stripe_size=1,
        row_index_stride=40,
        compression=pyorc.CompressionKind[codec],
        bloom_filter_columns=[2, 4, 7],
        dict_key_size_threshold=0.5,
    ) as writer:
        writer.writerows(events)
    return file.getvalue()

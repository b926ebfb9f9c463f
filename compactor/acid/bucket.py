"""ROW__ID, the permanent name of a row, and the bucket property in ACID rows (Hive's BucketCodec).

The bucket property has 32 bits. V1 is ``001 | 1 reserved bit | 12 bits bucket | 4 reserved bits | 12 bits statement ID``; V0
(before Hive 3) is the bucket itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from compactor.base.ids import WriteId

MAX_BUCKET = 4095
MAX_STATEMENT = 4095


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    """``version`` 0 or 1, the writer's ``number`` and the ``statement_id`` within its transaction."""

    version: int
    number: int
    statement_id: int = 0


def encode(number: int, statement_id: int | None = None) -> int:
    """Returns the V1 bucket property; a missing statement ID is 0, as in Hive.

    Raises:
        ValueError: a part does not fit into its 12 bits.
    """
    statement = 0 if statement_id is None else statement_id
    if not 0 <= number <= MAX_BUCKET or not 0 <= statement <= MAX_STATEMENT:
        raise ValueError(f"bucket {number}, statement {statement}: both must be within 0..{MAX_BUCKET}")
    return 1 << 29 | number << 16 | statement


def decode(bucket_property: int) -> Bucket:
    """Returns the parts of a bucket property of version 0 or 1.

    Raises:
        ValueError: the property is of any other version.
    """
    version = (bucket_property & 0xE0000000) >> 29
    if version == 0:
        return Bucket(version=0, number=bucket_property)
    if version == 1:
        return Bucket(version=1, number=(bucket_property & 0x0FFF0000) >> 16, statement_id=bucket_property & 0x0FFF)
    raise ValueError(f"bucket property {bucket_property}: version {version} is unknown, 0 and 1 are known")


def is_v1(bucket_property: int) -> bool:
    """Returns true if the property is of version 1, which all writers since Hive 3 use."""
    return (bucket_property & 0xE0000000) >> 29 == 1


def is_known(bucket_property: int) -> bool:
    """Returns true if the property is of version 0 or 1; no writer uses another one yet."""
    return (bucket_property & 0xE0000000) >> 29 <= 1


class RowId(NamedTuple):
    """``(originalTransaction, bucket, rowId)``; tuples compare in the sort order of ACID files.

    The bucket property compares as a signed 32-bit number, as in Hive's ``OrcRawRecordMerger.ReaderKey``.
    """

    write_id: WriteId
    bucket: int
    row_id: int

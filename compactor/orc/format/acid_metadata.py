"""Computes the user metadata of an ACID file from its rows; it is never copied (DESIGN 4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from compactor.acid.bucket import RowId
from compactor.acid.names import ACID_VERSION
from compactor.base.errors import BadFile
from compactor.base.ids import WriteId

KEY_INDEX = "hive.acid.key.index"
STATS = "hive.acid.stats"
VERSION = "hive.acid.version"


def key_index(last_keys: Sequence[RowId]) -> bytes:
    """Returns the last key of each stripe as ``writeId,bucket,rowId;``.

    Every stripe has one exact entry. Hive 2.3 and 3.1 need it: with fewer entries or a wrong one, Hive's row-by-row reader
    loses rows or fails.
    """
    return "".join(f"{key.write_id},{key.bucket},{key.row_id};" for key in last_keys).encode("ascii")


def parse_key_index(name: str, index: bytes) -> list[RowId]:
    """Parses the ``key_index`` of the file ``name``.

    Raises:
        BadFile: it is not a key index.
    """
    try:
        entries = [entry.split(",") for entry in index.decode("ascii").split(";")[:-1]]
        return [RowId(WriteId(int(write_id)), int(bucket), int(row_id)) for write_id, bucket, row_id in entries]
    except ValueError as error:
        raise BadFile(
            f"file {name}: its {KEY_INDEX} is {index[:80]!r}, expected writeId,bucket,rowId; for each stripe"
        ) from error


def acid_stats(inserts: int, updates: int, deletes: int) -> bytes:
    """Returns counts of events in the form of Hive's AcidStats: ``inserts,updates,deletes``."""
    return f"{inserts},{updates},{deletes}".encode("ascii")


def user_metadata(
    last_keys: Sequence[RowId],
    *,
    inserts: int = 0,
    updates: int = 0,
    deletes: int = 0,
    version: bytes | None = ACID_VERSION,
) -> Mapping[str, bytes]:
    """Returns the entries that Hive's own writer makes.

    Hive 2, which writes version 1, records no version.
    """
    entries = {KEY_INDEX: key_index(last_keys), STATS: acid_stats(inserts, updates, deletes)}
    return entries if version is None else entries | {VERSION: version}

"""ACID files that differ in their types or in what stripes of one file must have in common."""

from __future__ import annotations

import io
import zoneinfo
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.orc as po
import pyorc
from pyorc.converters import DEFAULT_CONVERTERS, ORCConverter

from compactor.acid.directory import acid_directory
from compactor.acid.write_ids import ValidTxnList, ValidWriteIdList
from compactor.base.ids import NOTHING_OPEN, TxnId, WriteId
from compactor.orc.format import messages
from compactor.orc.format.compression import compress, decompress
from compactor.orc.format.hive_types import parse_hive_type, schema_text
from compactor.orc.format.tail import Tail, read_tail
from compactor.orc.format.tail_writer import tail_bytes
from compactor.orc.format.types import acid_types
from compactor.orc.io.source import BytesSource
from compactor.rewrite.plan.unit import Shape, Unit
from compactor.rows.inputs import Input
from compactor.storage.local import LocalStorage
from demo.snapshot_reader import read_snapshot
from tests.judges import orc_1_5
from tests.support.acid_files import FIRST_FILE, write_file
from tests.support.folders import staging_of

RawTimestamp = tuple[int, int]
DELETER = 999  #: the write ID of all deletes


class _Raw(ORCConverter):  # type: ignore[misc]
    """Values as stored in the file."""

    @staticmethod
    def from_orc(*args: Any) -> Any:
        return args[:2]

    @staticmethod
    def to_orc(value: RawTimestamp, timezone: object) -> RawTimestamp:
        return value


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """A file of a mixture: ``values`` are rows of ``row``, repeated ``times`` times, so that one file can be larger than
    another.

    ``options`` are pyorc's, ``tail`` replaces parts of the file's tail, ``footer`` and ``script`` change its messages.
    """

    row: str = "a:int,b:string"
    values: Sequence[tuple[Any, ...]] = ((1, "x"), (None, None), (3, "z"))
    times: int = 1
    options: Mapping[str, Any] = field(default_factory=dict)
    tail: Mapping[str, Any] = field(default_factory=dict)
    footer: Callable[[messages.Message], None] | None = None
    script: Callable[[messages.Message], None] | None = None
    is_raw: bool = False
    lower_case: bool = False
    by_arrow: Mapping[str, Any] | None = None  #: options of Arrow, which writes what pyorc cannot
    by_java: Mapping[str, Any] | None = None  #: options of ORC Java 1.5, which takes values of the judges
    raw_timestamps: bool = False
    deleted: tuple[int, ...] = ()
    names_zone: bool = True  #: otherwise its stripes, which are not compressed, name no writer's time zone

    @property
    def rows(self) -> list[tuple[Any, ...]]:
        return list(self.values) * self.times

    def content(self, write_id: int) -> bytes:
        """Returns the file's bytes."""
        if self.by_java is not None:
            data = self._java(write_id, self.by_java)
        else:
            data = self._arrow(write_id) if self.by_arrow is not None else self._pyorc(write_id)
        if self.tail or self.footer or self.script:
            data = _changed(data, self.tail, self.footer, self.script)
        return data if self.names_zone else without_zone(data, self.options["timezone"])

    def _events(self, write_id: int) -> list[tuple[Any, ...]]:
        return [(0, write_id, FIRST_FILE, place, write_id, row) for place, row in enumerate(self.rows)]

    def _pyorc(self, write_id: int) -> bytes:
        file = io.BytesIO()
        row = parse_hive_type(f"struct<{self.row}>")
        schema = schema_text(row if self.is_raw else acid_types(row))
        options = {"compression": pyorc.CompressionKind.ZLIB, **self.options}
        if isinstance(options.get("timezone"), str):
            options["timezone"] = zoneinfo.ZoneInfo(options["timezone"])
        if self.raw_timestamps:
            options["converters"] = {**DEFAULT_CONVERTERS, pyorc.TypeKind.TIMESTAMP: _Raw}
        if self.lower_case:
            schema = schema.replace("originalTransaction", "originaltransaction").replace("rowId", "rowid")
        with pyorc.Writer(file, schema, **options) as writer:
            writer.writerows(self.rows if self.is_raw else self._events(write_id))
        return file.getvalue()

    def _arrow(self, write_id: int) -> bytes:
        plain = BytesSource(self._pyorc(write_id))
        table = po.ORCFile(pa.BufferReader(plain.read(0, plain.length))).read()
        file = io.BytesIO()
        with po.ORCWriter(file, compression="zlib", **(self.by_arrow or {})) as writer:
            writer.write(table)
            writer.close()
            return file.getvalue()

    def _java(self, write_id: int, options: Mapping[str, Any]) -> bytes:
        schema = schema_text(acid_types(parse_hive_type(f"struct<{self.row}>")))
        with TemporaryDirectory() as folder:
            path = Path(folder, "file")
            orc_1_5().write(path, schema, self._events(write_id), **options)
            return path.read_bytes()


def without_zone(data: bytes, zone: str) -> bytes:
    """Returns an uncompressed file whose stripes name no zone: the field gets a number that no reader knows."""
    name = bytes([len(zone)]) + zone.encode()
    changed = data.replace(b"\x1a" + name, b"\x7a" + name)
    assert changed != data
    return changed


def _changed(
    data: bytes,
    changes: Mapping[str, Any],
    footer: Callable[[messages.Message], None] | None,
    script: Callable[[messages.Message], None] | None,
) -> bytes:
    tail = replace(read_tail(BytesSource(data)), **changes)
    end = max(stripe.end for stripe in tail.stripes)
    new = tail_bytes(replace(tail, content_length=end))
    if footer is None and script is None:
        return data[:end] + new
    post = messages.PostScript.FromString(new[-1 - new[-1] : -1])
    foot = new[post.metadata_length : post.metadata_length + post.footer_length]
    message = messages.Footer.FromString(decompress(foot, tail.compression, tail.compression_block_size, "f"))
    if footer:
        footer(message)
    foot = compress(message.SerializeToString(), tail.compression, tail.compression_block_size)
    post.footer_length = len(foot)
    if script:
        script(post)
    end_bytes = post.SerializeToString()
    return data[:end] + new[: post.metadata_length] + foot + end_bytes + bytes([len(end_bytes)])


def make_unit(root: Path, files: Sequence[File], table: str, *, small_stripe_bytes: int = 0) -> Unit:
    """Returns a major compaction's unit over these files, in deltas of write IDs from 1 on (original files are in none),
    with deletes.
    """
    inserts, keys = [], []
    for number, file in enumerate(files, start=1):
        path = root / ("000000_0" if file.is_raw else f"delta_{number}_{number}/bucket_00000")
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(file.content(number))
        name = str(path.relative_to(root))
        inserts.append(Input(path=name, length=path.stat().st_size, raw=file.is_raw, group=name))
        keys += [(0 if file.is_raw else number, FIRST_FILE, place) for place in file.deleted]
    deletes = []
    if keys:
        path = write_file(
            root / f"delete_delta_{DELETER}_{DELETER}/bucket_00000", keys, current=[DELETER] * len(keys), operation=2
        )
        deletes = [Input(path=str(path.relative_to(root)), length=path.stat().st_size)]
    return Unit(
        location=str(root),
        staging=staging_of(root),
        number=0,
        shape=Shape.MAJOR,
        inserts=tuple(inserts),
        deletes=tuple(deletes),
        write_ids=ValidWriteIdList(table="d.t", high_watermark=WriteId(DELETER)),
        first_write_id=WriteId(1),
        row_type=f"struct<{table}>",
        small_stripe_bytes=small_stripe_bytes,
        full_verify=True,
    )


def stripe_lengths(root: Path, source: Input) -> list[int]:
    return [stripe.length for stripe in tail_of(root / source.path).stripes]


def tail_of(path: Path) -> Tail:
    return read_tail(BytesSource(path.read_bytes(), str(path)))


def rows_of(path: str, *, raw: bool = False) -> list[tuple[Any, ...]]:
    """Returns the user's columns as an independent reader shows them; ``raw`` timestamps as seconds and nanoseconds."""
    converters = {**DEFAULT_CONVERTERS, **({pyorc.TypeKind.TIMESTAMP: _Raw} if raw else {})}
    with open(path, "rb") as file:
        return [row[5] for row in pyorc.Reader(file, converters=converters)]


def snapshot(root: Path, table: str) -> list[tuple[Any, ...]]:
    """Returns ROW__IDs and the table's columns as our own reader shows the directory ``root``."""
    write_ids = ValidWriteIdList(table="d.t", high_watermark=WriteId(DELETER))
    everything = ValidTxnList(high_watermark=TxnId(NOTHING_OPEN))
    directory = acid_directory(LocalStorage().listing(str(root)), write_ids, everything)
    width = 3 + len(parse_hive_type(f"struct<{table}>")[0].children)
    return sorted(
        (
            (*list(row.values())[:width], *[None] * (width - len(row)))
            for batch in read_snapshot(str(root), directory, write_ids, f"struct<{table}>")
            for row in batch.to_pylist()
        ),
        key=lambda row: row[:3],
    )

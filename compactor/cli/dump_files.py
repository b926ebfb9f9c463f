"""The files that ``compactor dump`` shows, in any store, and their rows as JSON."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from compactor.acid.names import FLUSH_LENGTH_SUFFIX
from compactor.base.errors import NotFound, NotLossless
from compactor.orc.codecs.choice import ARROW, PYORC
from compactor.orc.codecs.codec import Unfit, column_names
from compactor.orc.codecs.json_values import value
from compactor.orc.codecs.wall_clock import shown_zone, wall_clock_batch
from compactor.orc.format.hive_types import valid_name
from compactor.orc.format.java_zones import JavaZone
from compactor.orc.format.tail import Tail
from compactor.orc.io.source import Source
from compactor.storage.protocol import Storage

_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(//[^/]*)?(/.*)?")
_HIDDEN = ("_", ".")  #: first characters of names that Hive's tools skip


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpFile:
    """A file to show.

    Attributes:
        path: its path in its store.
        shown: its path as the user writes it.
        hive_name: its path as Hive's tool writes it.
    """

    path: str
    shown: str
    hive_name: str


def find_files(storage: Storage, path: str, current: str) -> Iterator[DumpFile]:
    """Yields the file at ``path``, or every data file below that directory, ordered by name.

    Args:
        path: a URI, or a path; a relative one starts at the directory ``current``.

    Raises:
        NotFound: nothing is there.
        NotSupported: no store serves its URI.
        StorageError: the store does not answer, or the configuration does not allow its place.
    """
    is_uri = _URI.fullmatch(path) is not None and ":/" in path
    resolved = storage.resolve(path if is_uri else posixpath.join(current, path))
    if not storage.exists(resolved):
        raise NotFound(
            f"{path}: there is nothing at {resolved}; expected an ORC file, or a directory with such files, for example the "
            "location that DESCRIBE FORMATTED prints; check the spelling"
        )
    if storage.anchor(resolved) is None:  # not a directory
        yield DumpFile(path=resolved, shown=valid_name(path), hive_name=hive_path(path))
        return
    top = hive_path(path) if is_uri else f"file:{hive_path(posixpath.join(current, path))}"
    names = (file.path for file in storage.listing(resolved).files)
    for name in sorted(filter(_is_data, names), key=lambda name: name.split("/")):
        yield DumpFile(
            path=f"{resolved}/{name}",
            shown=valid_name(posixpath.join(path, name)),
            hive_name=f"{top.rstrip('/')}/{name}",
        )


def _is_data(name: str) -> bool:
    return not name.endswith(FLUSH_LENGTH_SUFFIX) and not any(part.startswith(_HIDDEN) for part in name.split("/"))


def hive_path(text: str) -> str:
    """Returns a path as Hadoop spells it: without doubled slashes, dots, and a slash at the end."""
    scheme, authority, path = "", "", text
    if (match := _URI.fullmatch(text)) is not None and ":/" in text:
        # hdfs://nn:8020/warehouse/t: scheme hdfs:, authority //nn:8020, path /warehouse/t
        scheme, authority, path = f"{match[1]}:", match[2] or "", match[3] or ""
        authority = "" if authority == "//" else authority
    if not path:
        return scheme + authority
    normal = posixpath.normpath(path)
    return f"{scheme}{authority}{normal[1:] if normal.startswith('//') else normal}"


def read_rows(source: Source, tail: Tail) -> Iterator[dict[str, object]]:
    """Yields every row in file order; memory is bounded by a batch of rows.

    Raises:
        BadFile: a stripe cannot be decoded.
        NotLossless: neither codec decodes a type completely (unions), or columns are encrypted.
    """
    names = column_names(tail.types)
    children = tail.types[0].children
    for batch in read_batches(source, tail):
        for index in range(batch.num_rows):
            yield {
                name: value(batch.column(place)[index], tail.types, child)
                for place, (name, child) in enumerate(zip(names, children, strict=True))
            }


def read_batches(source: Source, tail: Tail) -> Iterator[pa.RecordBatch]:
    """Yields the decoded rows in batches; raises the same errors as ``read_rows``."""
    if tail.encrypted:
        raise NotLossless(
            f"{tail.name}: has encrypted columns; Compactor cannot show its rows; --meta shows its metadata"
        )
    for stripe in range(len(tail.stripes)):
        yield from _read_stripe(source, tail, stripe)


def _read_stripe(source: Source, tail: Tail, stripe: int) -> Iterator[pa.RecordBatch]:
    done, zone = 0, shown_zone(source, tail, stripe)
    if tail.types.is_encodable:
        try:
            for batch in ARROW.read_batches(source, tail, stripes=[stripe]):
                yield _on_wall_clock(batch, tail, zone)
                done += batch.num_rows
            return
        except Unfit:
            pass  # the other codec starts over and skips the rows that were yielded
    for batch in PYORC.read_batches(source, tail, stripes=[stripe]):
        skipped = max(0, done)
        done -= batch.num_rows
        if skipped < batch.num_rows:
            yield _on_wall_clock(batch.slice(skipped), tail, zone)


def _on_wall_clock(batch: pa.RecordBatch, tail: Tail, zone: JavaZone | None) -> pa.RecordBatch:
    return batch if zone is None else wall_clock_batch(batch, tail.types, tail.types[0].children, zone)

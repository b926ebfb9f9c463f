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
_HIDDEN = ("_", ".")  #: how names begin that Hive's tools skip


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpFile:
    """A file that is shown.

    Attributes:
        path: what its store calls it.
        shown: what its user calls it.
        hive_name: what Hive's tool calls it.
    """

    path: str
    shown: str
    hive_name: str


def files_of(storage: Storage, given: str, current: str) -> Iterator[DumpFile]:
    """Yields the file ``given``, or every data file below the directory, by name.

    Args:
        given: a path, relative to the directory ``current`` if it is not absolute, or a URI.

    Raises:
        NotFound: there is nothing.
        NotSupported: no store serves such URIs.
        StorageError: the store does not answer, or its place is not one that the configuration names.
    """
    is_uri = _URI.fullmatch(given) is not None and ":/" in given
    path = storage.resolve(given if is_uri else posixpath.join(current, given))
    if not storage.exists(path):
        raise NotFound(
            f"{given}: there is nothing at {path}; wanted an ORC file, or a directory that holds some, such as the location "
            "that DESCRIBE FORMATTED prints; check its spelling"
        )
    if storage.anchor(path) is None:  # what is there is no directory
        yield DumpFile(path=path, shown=valid_name(given), hive_name=hive_path(given))
        return
    top = hive_path(given) if is_uri else f"file:{hive_path(posixpath.join(current, given))}"
    names = (file.path for file in storage.listing(path).files)
    for name in sorted(filter(_is_data, names), key=lambda name: name.split("/")):
        yield DumpFile(
            path=f"{path}/{name}", shown=valid_name(posixpath.join(given, name)), hive_name=f"{top.rstrip('/')}/{name}"
        )


def _is_data(name: str) -> bool:
    return not name.endswith(FLUSH_LENGTH_SUFFIX) and not any(part.startswith(_HIDDEN) for part in name.split("/"))


def hive_path(given: str) -> str:
    """Returns a path as Hadoop spells it: without doubled slashes, dots, and a slash at the end."""
    scheme, authority, path = "", "", given
    if (found := _URI.fullmatch(given)) is not None and ":/" in given:
        scheme, authority, path = f"{found[1]}:", found[2] or "", found[3] or ""
        authority = "" if authority == "//" else authority
    if not path:
        return scheme + authority
    normal = posixpath.normpath(path)
    return f"{scheme}{authority}{normal[1:] if normal.startswith('//') else normal}"


def rows(source: Source, tail: Tail) -> Iterator[dict[str, object]]:
    """Yields every row in file order; memory is bounded by a batch of rows.

    Raises:
        BadFile: a stripe cannot be decoded.
        NotLossless: neither codec decodes a type completely (unions), or columns are encrypted.
    """
    names = column_names(tail.types)
    children = tail.types[0].children
    for batch in batches(source, tail):
        for index in range(batch.num_rows):
            yield {
                name: value(batch.column(place)[index], tail.types, child)
                for place, (name, child) in enumerate(zip(names, children, strict=True))
            }


def batches(source: Source, tail: Tail) -> Iterator[pa.RecordBatch]:
    """Yields the rows of ``rows`` as they are decoded; raises as it does."""
    if tail.encrypted:
        raise NotLossless(f"{tail.name}: has encrypted columns; its rows cannot be shown, its metadata can (--meta)")
    for stripe in range(len(tail.stripes)):
        yield from _stripe(source, tail, stripe)


def _stripe(source: Source, tail: Tail, stripe: int) -> Iterator[pa.RecordBatch]:
    done, zone = 0, shown_zone(source, tail, stripe)
    if tail.types.is_encodable:
        try:
            for batch in ARROW.read_batches(source, tail, stripes=[stripe]):
                yield _shown(batch, tail, zone)
                done += batch.num_rows
            return
        except Unfit:
            pass  # the other codec starts over and skips the rows that are done
    for batch in PYORC.read_batches(source, tail, stripes=[stripe]):
        left = max(0, done)
        done -= batch.num_rows
        if left < batch.num_rows:
            yield _shown(batch.slice(left), tail, zone)


def _shown(batch: pa.RecordBatch, tail: Tail, zone: JavaZone | None) -> pa.RecordBatch:
    return batch if zone is None else wall_clock_batch(batch, tail.types, tail.types[0].children, zone)

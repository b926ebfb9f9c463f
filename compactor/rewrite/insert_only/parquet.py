"""Joins Parquet files of an insert-only table: copies their row groups and writes a new footer.

Nothing is decoded, so every reader sees the same values, pages and statistics as before. Files are joined only if schema,
writer and key-value metadata are equal, because Hive interprets days and timestamps by the latter two.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyarrow import parquet

from compactor.base.errors import BadFile, NotLossless, VerificationFailed
from compactor.orc.io.source import LocalSource, Source, chunks, crc32
from compactor.rewrite.insert_only import parquet_footer as footer
from compactor.rewrite.insert_only.output_file import CountingSink, FinishedFile
from compactor.rewrite.insert_only.parquet_footer import BINARY, I16, I32, I64, LIST, MAGIC, STRUCT, Struct

#: Fields of a row group, of its column chunks, of their metadata, and of a page's place.
_COLUMNS, _GROUP_ROWS, _GROUP_OFFSET, _ORDINAL = 1, 3, 5, 7
_PATH, _CHUNK_OFFSET, _META, _PLACES, _PLACES_LENGTH, _VALUES, _VALUES_LENGTH, _CRYPTO, _ENCRYPTED = range(1, 10)
_COMPRESSED, _DATA, _INDEX, _DICTIONARY, _BLOOM, _BLOOM_LENGTH = 7, 9, 10, 11, 14, 15
_PAGES, _PAGE_OFFSET = 1, 1
_MAX_ORDINALS = 1 << 15
_BATCH_ROWS = 4096  #: decoded at a time; a row group may have any number of rows
#: PARQUET-816: up to these versions a chunk's length left out the header of its dictionary page.
_WRONG_LENGTHS = re.compile(rb"parquet-mr version 1\.[0-2]\.")


def write(sources: Sequence[Source], path: str, *, full: bool) -> list[FinishedFile]:
    """Writes all row groups of ``sources``, in their order, to few files next to ``path``.

    Raises:
        BadFile: a file is not Parquet, or damaged.
        NotLossless: a file is encrypted, or its writer is known for wrong lengths.
        VerificationFailed: an output differs from its inputs.
    """
    return [_write(group, f"{path}.{number}", full) for number, group in enumerate(joinable_files(sources))]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ParquetFile:
    """A file with rows and its footer."""

    source: Source
    footer: Struct

    @property
    def rows(self) -> int:
        return int(self.footer[footer.ROWS][1])

    @property
    def row_groups(self) -> list[Struct]:
        groups: list[Struct] = self.footer[footer.ROW_GROUPS][1][1]
        return groups


def joinable_files(sources: Sequence[Source]) -> list[list[ParquetFile]]:
    """Groups the files that may become one, in the order of each group's first file.

    Leaves out files without rows.
    """
    groups: dict[bytes, list[ParquetFile]] = {}
    for source in sources:
        file = ParquetFile(source=source, footer=footer.read_footer(source))
        _check_footer(file)
        if file.rows:
            alike = {key: value for key, value in file.footer.items() if key not in (footer.ROWS, footer.ROW_GROUPS)}
            groups.setdefault(footer.serialize(alike), []).append(file)
    return list(groups.values())


def _check_footer(file: ParquetFile) -> None:
    by = file.footer.get(footer.CREATED_BY, (BINARY, b""))[1]
    if _WRONG_LENGTHS.match(by):
        raise NotLossless(
            f"{file.source.name}: was written by {by.decode('utf-8', 'replace')}, whose column chunks are longer than they "
            "say (PARQUET-816); rewrite the partition with INSERT OVERWRITE"
        )
    missing = {footer.SCHEMA, footer.ROWS, footer.ROW_GROUPS} - set(file.footer)
    if missing or sum(group[_GROUP_ROWS][1] for group in file.row_groups) != file.rows:
        raise BadFile(f"{file.source.name}: its footer does not agree with itself; restore the file")


def _write(files: Sequence[ParquetFile], path: str, full: bool) -> FinishedFile:
    with CountingSink(path) as out:
        out.write(MAGIC)
        row_groups: list[Struct] = []
        indexes: list[_Indexed] = []
        bytes_copied = 0
        for file in files:
            for group in file.row_groups:
                begins = out.length
                row_groups.append(_copy_group(file.source, group, len(row_groups), out, indexes))
                bytes_copied += out.length - begins
        for indexed in indexes:
            indexed.write(out)
        whole = dict(files[0].footer)
        rows = sum(file.rows for file in files)
        whole[footer.ROWS] = (I64, rows)
        whole[footer.ROW_GROUPS] = (LIST, (STRUCT, row_groups))
        tail = footer.serialize(whole)
        out.write(tail + len(tail).to_bytes(4, "little") + MAGIC)
    _verify(files, path, rows, row_groups, full)
    return FinishedFile(
        path=path, rows=rows, length=out.length, crc32=out.crc32, copied=len(row_groups), bytes_copied=bytes_copied
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Indexed:
    """A column chunk whose page index follows the row groups. ``moved`` is how far its pages have moved."""

    source: Source
    old: Struct
    new: Struct
    moved: int

    def write(self, out: CountingSink) -> None:
        values = _range(self.source, self.old, _VALUES, _VALUES_LENGTH)
        index = _range(self.source, self.old, _PLACES, _PLACES_LENGTH)
        places = footer.parse_struct(index, self.source.name, self.source.limits)
        for page in places[_PAGES][1][1]:
            page[_PAGE_OFFSET] = (I64, page[_PAGE_OFFSET][1] + self.moved)
        for data, offset, length in (
            (values, _VALUES, _VALUES_LENGTH),
            (footer.serialize(places), _PLACES, _PLACES_LENGTH),
        ):
            self.new[offset], self.new[length] = (I64, out.length), (I32, len(data))
            out.write(data)


def _range(source: Source, chunk: Struct, offset: int, length: int) -> bytes:
    return footer.read_part(source, int(chunk[offset][1]), int(chunk[length][1]), "page index")


def _copy_group(source: Source, group: Struct, number: int, out: CountingSink, indexes: list[_Indexed]) -> Struct:
    """Writes the bytes of a row group and returns its entry in the new footer."""
    begins = out.length
    columns: list[Struct] = []
    for chunk in group[_COLUMNS][1][1]:
        start, length = _extent(source, chunk)
        moved = out.length - start
        for data in chunks(source, start, length):
            out.write(data)
        new = _move_chunk(chunk, start + moved, moved)
        if {_PLACES, _PLACES_LENGTH, _VALUES, _VALUES_LENGTH} <= set(chunk):
            indexes.append(_Indexed(source=source, old=chunk, new=new, moved=moved))
        columns.append(new)
    entry = {**group, _COLUMNS: (LIST, (STRUCT, columns))}
    if _GROUP_OFFSET in entry:
        entry[_GROUP_OFFSET] = (I64, begins)
    if _ORDINAL in entry:
        entry[_ORDINAL] = (I16, number)
        if number >= _MAX_ORDINALS:
            del entry[_ORDINAL]
    return entry


def _move_chunk(chunk: Struct, start: int, moved: int) -> Struct:
    """Returns the footer's entry for a chunk that now begins at ``start``, without its Bloom filter."""
    meta = {key: value for key, value in chunk[_META][1].items() if key not in (_BLOOM, _BLOOM_LENGTH)}
    for key in (_DATA, _INDEX, _DICTIONARY):
        if meta.get(key, (I64, 0))[1] > 0:
            meta[key] = (I64, meta[key][1] + moved)
    gone = (_PLACES, _PLACES_LENGTH, _VALUES, _VALUES_LENGTH)
    new: Struct = {key: value for key, value in chunk.items() if key not in gone}
    new[_META] = (STRUCT, meta)
    if new[_CHUNK_OFFSET][1]:
        new[_CHUNK_OFFSET] = (I64, start)
    return new


def _extent(source: Source, chunk: Struct) -> tuple[int, int]:
    """Returns the offset of a chunk's pages and their length in bytes."""
    if _PATH in chunk or _CRYPTO in chunk or _ENCRYPTED in chunk or _META not in chunk:
        raise NotLossless(f"{source.name}: has a column that is encrypted or in another file; exclude the table")
    meta = chunk[_META][1]
    places = [meta[key][1] for key in (_DATA, _INDEX, _DICTIONARY) if meta.get(key, (I64, 0))[1] > 0]
    start, length = min(places, default=0), meta[_COMPRESSED][1]
    if start < len(MAGIC) or length < 0 or start + length > source.length:
        raise BadFile(f"{source.name}: a column chunk lies outside of the file; restore it")
    return start, length


def _verify(files: Sequence[ParquetFile], path: str, rows: int, row_groups: Sequence[Struct], full: bool) -> None:
    """Checks that another reader finds all rows.

    With ``full`` compares each chunk's bytes and decodes every value.
    """
    try:
        written = parquet.ParquetFile(path)
        metadata = written.metadata
        row_counts = (metadata.num_rows, [metadata.row_group(n).num_rows for n in range(metadata.num_row_groups)])
        if metadata.num_columns:
            for number in range(metadata.num_row_groups) if full else (metadata.num_row_groups - 1,):
                columns = None if full else [metadata.schema.column(0).path]
                _check_decodes(written, number, columns, path)
    except MemoryError:
        raise
    except (pa.ArrowException, OSError) as error:
        names = ", ".join(file.source.name for file in files[:3]) + (", …" if len(files) > 3 else "")
        raise VerificationFailed(
            f"{path}: cannot be read back ({error}); nothing was changed. It was joined from {names}: if one of these "
            "cannot be read either, restore it, else report this"
        ) from error
    expected = (rows, [group[_GROUP_ROWS][1] for group in row_groups])
    if row_counts != expected:
        raise VerificationFailed(
            f"{path}: holds {row_counts} rows, expected {expected}; nothing was changed, please report this"
        )
    if full:
        with LocalSource(path) as source:
            old = [_checksums(file.source, group) for file in files for group in file.row_groups]
            if old != [_checksums(source, group) for group in row_groups]:
                raise VerificationFailed(f"{path}: holds other bytes than its inputs; nothing was changed, report this")


def _check_decodes(written: Any, number: int, columns: list[str] | None, path: str) -> None:
    batches = written.iter_batches(_BATCH_ROWS, row_groups=[number], columns=columns, use_threads=False)
    try:
        rows = sum(batch.num_rows for batch in batches)
    except NotImplementedError:  # this reader lacks the codec; the bytes are copied all the same
        return
    if rows != written.metadata.row_group(number).num_rows:
        raise VerificationFailed(f"{path}: row group {number} has {rows} rows; nothing was changed")


def _checksums(source: Source, group: Struct) -> list[int]:
    return [crc32(source, *_extent(source, chunk)) for chunk in group[_COLUMNS][1][1]]

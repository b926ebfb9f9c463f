"""Rewrites one unit of an insert-only table by its file format.

Its files have neither ACID columns nor deletes.

Directories alone decide what a snapshot sees. Every row of a file is kept, in its order.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from compactor.acid.names import DeltaKind, original_name
from compactor.base.errors import VerificationFailed
from compactor.orc.assembler import write_empty
from compactor.orc.io.file_pool import FilePool
from compactor.orc.io.look_ahead import look_ahead
from compactor.orc.io.source import LocalSink, LocalSource, Source, chunks, crc32
from compactor.rewrite.insert_only import orc, parquet
from compactor.rewrite.insert_only import text as insert_only_text
from compactor.rewrite.insert_only.output_file import CountingSink, FinishedFile
from compactor.rewrite.plan.file_format import FileFormat
from compactor.rewrite.plan.unit import Figures, Output, Unit, UnitResult
from compactor.rows.acid_file import open_files
from compactor.rows.inputs import Input
from compactor.rows.new_file import NewFileTarget
from compactor.rows.remote_source import open_source
from compactor.storage.protocol import Storage


def rewrite_insert_only(unit: Unit, storage: Storage, path: str) -> UnitResult:
    """Writes the unit's files side by side, at ``path`` with a number appended.

    Raises:
        BadFile: an input cannot be read.
        NotLossless: something would be lost.
        VerificationFailed: a check of an output fails.
    """
    files, rows_read = _write_files(unit, storage, path)
    if not files and unit.inserts:
        files = [_copy_empty(unit, storage, path)]
    outputs = tuple(
        Output(
            kind=DeltaKind.INSERT,
            path=file.path,
            number=unit.number,
            rows=file.rows,
            length=file.length,
            crc32=file.crc32,
            ranges=file.ranges,
            file_name=original_name(unit.number, copy) + file.ending,
            row_figures=file.row_figures,
        )
        for copy, file in enumerate(files)
    )
    figures = Figures(
        rows_in=rows_read,
        rows_out=sum(file.rows for file in files),
        stripes_copied=sum(file.copied for file in files),
        stripes_encoded=sum(file.encoded for file in files),
        bytes_copied=sum(file.bytes_copied for file in files),
        bytes_taken_over=sum(file.bytes_taken_over for file in files),
        files_in=len(unit.inserts),
        files_out=len(files),
        bytes_in=unit.input_bytes,
        bytes_out=sum(file.length for file in files),
    )
    return UnitResult(number=unit.number, outputs=outputs, figures=figures)


def _write_files(unit: Unit, storage: Storage, path: str) -> tuple[list[FinishedFile], int]:
    """Writes the files and returns them with the number of rows of the inputs."""
    if unit.file_format is FileFormat.ORC:
        with open_files(unit.location, _non_empty(unit), unit.number, storage, zone=unit.default_zone) as files:
            target = NewFileTarget(storage=storage, home=unit.staging, path=path, sees_all=unit.full_verify)
            written = orc.write(
                files,
                target,
                small_stripe_bytes=unit.small_stripe_bytes,
                full=unit.full_verify,
                avoids=_avoided_codecs(unit),
            )
            return written, sum(file.tail.rows for file in files)
    with _open_sources(unit, storage) as sources:
        if unit.file_format is FileFormat.PARQUET:
            read = sum(file.rows for group in parquet.joinable_files(sources) for file in group)
            return parquet.write(sources, path, full=unit.full_verify), read
        if _stay_whole(unit, sources):
            return copy_whole(sources, path), 0
        written = insert_only_text.write(sources, path, full=unit.full_verify)
        return written, sum(file.rows for file in written)  # ``text.write`` compares this count with the inputs


def _avoided_codecs(unit: Unit) -> frozenset[str]:
    return frozenset() if unit.output_class is None else unit.output_class.avoids


def _stay_whole(unit: Unit, sources: Sequence[Source]) -> bool:
    return unit.file_format is FileFormat.WHOLE or not all(map(insert_only_text.is_plain_text, sources))


def _copy_empty(unit: Unit, storage: Storage, path: str) -> FinishedFile:
    """Copies one of several inputs without rows, since Trino shows old rows without a file (PROTOCOL 1.4).

    A codec that a reader of the table does not know becomes ZLIB, since readers open such files, too.
    """
    first = next(iter(_non_empty(unit)), unit.inserts[0])
    if unit.file_format is FileFormat.ORC and first.length:
        with open_files(unit.location, [first], unit.number, storage, zone=unit.default_zone) as (file,):
            if file.tail.compression.name in _avoided_codecs(unit):
                written = write_empty(
                    LocalSink(path), file.tail.types, user_metadata=file.tail.user_metadata, checksum=True
                )
                return FinishedFile(path=path, rows=0, length=written.length, crc32=written.checksum)
    with FilePool() as few, CountingSink(path) as out:
        for data in chunks(few.open(partial(open_source, storage, f"{unit.location}/{first.path}")), 0, first.length):
            out.write(data)
    return FinishedFile(path=path, rows=0, length=out.length, crc32=out.crc32)


def preview_figures(unit: Unit, storage: Storage) -> Figures:
    """Returns the figures of ``rewrite_insert_only`` without writing.

    Does not count rows of files that stay whole.
    """
    if unit.file_format is FileFormat.ORC:
        with open_files(unit.location, _non_empty(unit), unit.number, storage, zone=unit.default_zone) as files:
            groups = orc.joinable_files(files, _avoided_codecs(unit))
            stripes = [stripe for group in groups for stripe in group.stripes(unit.small_stripe_bytes)]
            copied = [stripe for stripe in stripes if stripe.copied]
            rows = sum(group.rows for group in groups)
            return Figures(
                rows_in=rows,
                rows_out=rows,
                stripes_copied=len(copied),
                stripes_encoded=len(stripes) - len(copied),
                bytes_copied=sum(stripe.length for stripe in copied),
                bytes_in=sum(stripe.length for stripe in stripes),
            )
    with _open_sources(unit, storage) as sources:
        if unit.file_format is FileFormat.PARQUET:
            files_of = parquet.joinable_files(sources)
            rows = sum(file.rows for group in files_of for file in group)
            copied_groups = sum(len(file.row_groups) for group in files_of for file in group)
        elif _stay_whole(unit, sources):
            rows, copied_groups = 0, 0
        else:
            rows, copied_groups = sum(insert_only_text.count_lines(source) for source in sources), 0
        size = unit.input_bytes
        return Figures(rows_in=rows, rows_out=rows, stripes_copied=copied_groups, bytes_copied=size, bytes_in=size)


def copy_whole(sources: Sequence[Source], path: str) -> list[FinishedFile]:
    """Copies each source that holds bytes to ``path`` with a number appended, without counting rows.

    This is for formats that cannot share a file without decoding rows: Avro, SequenceFile, RCFile, text with header lines or
    a codec. It still makes one directory of many.

    Raises:
        VerificationFailed: a copy differs from its source.
    """
    return [_copy_file(source, f"{path}.{number}") for number, source in enumerate(s for s in sources if s.length)]


def _copy_file(source: Source, path: str) -> FinishedFile:
    with CountingSink(path) as out:
        for data in chunks(source, 0, source.length):
            out.write(data)
    with LocalSource(path) as written:
        if written.length != source.length or crc32(written, 0, written.length) != out.crc32:
            raise VerificationFailed(
                f"{path}: holds other bytes than {source.name}; nothing was changed, request it again"
            )
    ending = os.path.splitext(source.name.rpartition("/")[2])[1]
    return FinishedFile(path=path, rows=0, length=out.length, crc32=out.crc32, bytes_copied=out.length, ending=ending)


def _non_empty(unit: Unit) -> list[Input]:
    """Returns the inputs with bytes. Readers of every format skip an empty file."""
    return [source for source in unit.inserts if source.length]


@contextmanager
def _open_sources(unit: Unit, storage: Storage) -> Iterator[Sequence[Source]]:
    with FilePool() as few:

        def open_input(input_file: Input) -> Source:
            return few.open(partial(open_source, storage, f"{unit.location}/{input_file.path}"))

        yield list(look_ahead(open_input, _non_empty(unit)))

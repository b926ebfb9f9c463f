"""Decides the format of an output file: its types, and the class of its stripes (compression, row index, calendar)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from compactor.acid.names import DeltaKind
from compactor.orc.assembler import WrittenFile
from compactor.orc.codecs.bloom_filters import StripeFilters, asked_filters, common_filters, stripe_filters
from compactor.orc.footer_figures import row_figures
from compactor.orc.format.common_types import common_types
from compactor.orc.format.compression import Compression
from compactor.orc.format.hive_types import parse_hive_type
from compactor.orc.format.tail import Tail, empty_tail, key_statistics
from compactor.orc.format.types import Types, acid_types
from compactor.orc.pieces import Piece, SyntheticKeys, zone_of_stripe
from compactor.orc.stripe_compatibility import calendars_agree, encodable_target
from compactor.rewrite.full_acid.delete_events import LoadedEvents
from compactor.rewrite.full_acid.stripe_choice import Action, Choice
from compactor.rewrite.plan.unit import Output, Unit
from compactor.rows.acid_file import AcidFile
from compactor.settings.output_class import OutputClass
from compactor.storage.taking_over import TakenRange

BLOCK_SIZE = 256 * 1024  #: of an output whose inputs are uncompressed


def output_types(unit: Unit, files: Sequence[AcidFile], events: LoadedEvents | None = None) -> Types:
    """Returns the output's types: the smallest that hold all values of the inputs, under the table's names."""
    table = parse_hive_type(unit.row_type)
    found = {file.path: file.tail.types.row for file in files if file.tail.rows}
    if not found and events is not None and events.types is not None:
        found = {"": events.types.row}
    return acid_types(common_types(found, table) if found else table)


def template_of(choices: Iterable[Choice], types: Types, wanted: OutputClass | None = None) -> Tail:
    """Returns the tail whose class the output gets when nothing is copied: that of the largest suitable file, changed to
    the class that is ``wanted``."""
    return template_of_files(
        list({id(c.file): c.file.tail for c in choices if c.action is not Action.DROP}.values()), types, wanted
    )


def template_of_files(found: Sequence[Tail], types: Types, wanted: OutputClass | None = None) -> Tail:
    """Does the same for files with these tails."""
    tails = sorted(found, key=lambda tail: (tail.row_index_stride > 0, tail.length), reverse=True)
    # Days before 1582 must stay in their calendar; if two files have such days in two calendars, encoding raises.
    of_each = {tail.calendar: tail for tail in reversed(tails)}
    fitting = [t for t in tails if t is of_each[t.calendar] and all(calendars_agree(other, t) for other in tails)]
    return new_tail(fitting[0] if fitting else tails[0], types, wanted)


def new_tail(best: Tail, types: Types, wanted: OutputClass | None = None) -> Tail:
    """Returns an empty file of the class that ``best`` has, or should have; or of the one that is ``wanted``."""
    target = encodable_target(best)
    asked = wanted or OutputClass()
    compression = target.compression if asked.compression is None else Compression[asked.compression]
    return empty_tail(
        types,
        compression=Compression.ZLIB if compression.name in asked.avoids else compression,
        compression_block_size=asked.block_bytes or target.compression_block_size or BLOCK_SIZE,
        row_index_stride=asked.row_index_stride or target.row_index_stride,
        calendar=target.calendar,
        asked=wanted,
        filters=None if asked.bloom_filters is None else asked_filters(types, asked.bloom_filters),
    )


def with_common_filters(like: Tail, choices: Sequence[Choice], types: Types) -> Tail:
    """Returns ``like`` with the bloom filters that every stripe of the output gets, unless a request asks for others.

    Raises:
        BadFile: the footer of a stripe cannot be read.
    """
    if like.filters is not None:
        return like
    filters: dict[Action, list[StripeFilters]] = {Action.COPY: [], Action.ENCODE: [], Action.DROP: []}
    for choice in choices:
        if choice.action is not Action.DROP:
            filters[choice.action].append(stripe_filters(choice.file.source, choice.file.tail, choice.stripe))
    return replace(like, filters=common_filters(filters[Action.COPY], filters[Action.ENCODE], types))


def piece_of(choice: Choice) -> Piece:
    """Returns the kept rows of a stripe, to be decoded."""
    file = choice.file
    original = None
    if file.is_raw:
        first = file.first_row_id + file.first_row_of(choice.stripe)
        original = SyntheticKeys(write_id=file.write_id, bucket=file.bucket, first_row_id=first)
    return Piece(
        source=file.source,
        tail=file.tail,
        stripe_index=choice.stripe,
        keep=choice.keep,
        original=original,
        as_inserts=choice.as_inserts,
        to_zone=choice.to_zone,
        dense=key_statistics(file.tail, choice.stripe) if choice.is_unseen else None,
    )


def zone_of_choice(choice: Choice) -> str | None:
    """Returns the zone of a stripe's times in the output; see ``zone_of_stripe``."""
    return choice.to_zone or zone_of_stripe(choice.file.source, choice.file.tail, choice.stripe)


def output_of(
    kind: DeltaKind,
    path: str,
    number: int,
    written: WrittenFile,
    ranges: tuple[TakenRange, ...] = (),
    tail: Tail | None = None,
) -> Output:
    """Returns a finished file as an ``Output`` of its unit, with the figures that its ``tail`` gives."""
    assert written.checksum is not None or written.taken_over
    return Output(
        kind=kind,
        path=path,
        number=number,
        rows=written.rows,
        length=written.length,
        crc32=written.checksum,
        ranges=ranges,
        row_figures=row_figures(tail) if tail is not None else None,
    )

"""Chooses the types of an output file and the class of its stripes (compression, row index, calendar).

ORC Java before 1.6 (Hive 3.1, Spark up to 3.1) changes its zone only when a zone's name occurs for the first time, and
begins with the zone of its JVM. So it misreads most files with stripes of several zones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from compactor.acid.names import DeltaKind
from compactor.orc.assembler import WrittenFile
from compactor.orc.codecs.bloom_filters import StripeFilters, common_filters, filters_by_name, stripe_filters
from compactor.orc.footer_figures import row_figures
from compactor.orc.format.compression import Compression
from compactor.orc.format.hive_types import parse_hive_type
from compactor.orc.format.java_zones import UTC_NAME, java_zone
from compactor.orc.format.tail import Tail, empty_tail, key_statistics
from compactor.orc.format.types import TypeKind, Types, acid_types
from compactor.orc.format.widening import common_types
from compactor.orc.pieces import Piece, SyntheticKeys, lacks_zone, zone_of_stripe
from compactor.orc.stripe_compatibility import ORC_135, calendars_agree, encodable_target
from compactor.rewrite.full_acid.delete_events import LoadedEvents
from compactor.rewrite.full_acid.stripe_choice import Action, Choice
from compactor.rewrite.plan.unit import Output, Unit
from compactor.rows.acid_file import AcidFile
from compactor.settings.output_class import OutputClass
from compactor.storage.capabilities import TakenRange

BLOCK_SIZE = 256 * 1024  #: of an output whose inputs are uncompressed


def output_types(unit: Unit, files: Sequence[AcidFile], events: LoadedEvents | None = None) -> Types:
    """Returns the output's types: the smallest for all values of the inputs, under the table's names."""
    table = parse_hive_type(unit.row_type)
    row_types = {file.path: file.tail.types.row for file in files if file.tail.rows}
    if not row_types and events is not None and events.types is not None:
        row_types = {"": events.types.row}
    return acid_types(common_types(row_types, table) if row_types else table)


def template_of(choices: Iterable[Choice], types: Types, output_class: OutputClass | None = None) -> Tail:
    """Returns a tail with the class of an output without copied stripes: the largest suitable file's.

    ``output_class`` overrides parts of that class.
    """
    return template_of_files(
        list({id(c.file): c.file.tail for c in choices if c.action is not Action.DROP}.values()), types, output_class
    )


def template_of_files(tails: Sequence[Tail], types: Types, output_class: OutputClass | None = None) -> Tail:
    """Does the same for files with these tails."""
    by_size = sorted(tails, key=lambda tail: (tail.row_index_stride > 0, tail.length), reverse=True)
    # Days before 1582 must stay in their calendar. If two files have such days in different calendars, encoding raises.
    of_each = {tail.calendar: tail for tail in reversed(by_size)}
    fitting = [t for t in by_size if t is of_each[t.calendar] and all(calendars_agree(other, t) for other in by_size)]
    return new_tail(fitting[0] if fitting else by_size[0], types, output_class)


def new_tail(best: Tail, types: Types, output_class: OutputClass | None = None) -> Tail:
    """Returns the tail of an empty file of the class that suits ``best``, changed to ``output_class``."""
    target = encodable_target(best)
    requested = output_class or OutputClass()
    compression = target.compression if requested.compression is None else Compression[requested.compression]
    return empty_tail(
        types,
        compression=Compression.ZLIB if compression.name in requested.avoids else compression,
        compression_block_size=requested.block_bytes or target.compression_block_size or BLOCK_SIZE,
        row_index_stride=requested.row_index_stride or target.row_index_stride,
        calendar=target.calendar,
        requested_class=output_class,
        filters=None if requested.bloom_filters is None else filters_by_name(types, requested.bloom_filters),
    )


def with_common_filters(like: Tail, choices: Sequence[Choice], types: Types) -> Tail:
    """Adds the bloom filters of all stripes of the output to ``like``, unless a request asks for others.

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
    """Returns the piece of a stripe that a choice keeps, to be decoded."""
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
    """Describes a finished file as an ``Output`` of its unit, with the figures from its ``tail``."""
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


def fit_to_zones(choices: Sequence[Choice]) -> list[Choice]:
    """Returns the final choices for one file, all in one zone.

    That is the zone with the most bytes, if its clocks have shown all times that the other stripes may hold; otherwise
    it is UTC. Stripes that name no zone are re-encoded if their zone is known by other means.
    """
    zones = [zone_of_choice(choice) for choice in choices]
    known = set(zones) - {None}
    target = None if len(known) < 2 else _choose_zone(choices, zones)
    return [_fit_choice(choice, zone, target) for choice, zone in zip(choices, zones, strict=True)]


def _fit_choice(choice: Choice, zone: str | None, target: str | None) -> Choice:
    if zone is None:
        return choice
    if target not in (None, zone):
        return choice._replace(action=Action.ENCODE, is_only_small=False, to_zone=target)
    return choice._replace(action=Action.ENCODE, is_only_small=False) if _lacks_zone(choice) else choice


def _lacks_zone(choice: Choice) -> bool:
    return lacks_zone(choice.file.source, choice.file.tail, choice.stripe)


def _choose_zone(choices: Sequence[Choice], zones: Sequence[str | None]) -> str:
    sizes: Counter[str] = Counter()
    for choice, zone in zip(choices, zones, strict=True):
        sizes[zone or UTC_NAME] += choice.length if zone else 0
    ((largest, _),) = sizes.most_common(1)
    others = (choice for choice, zone in zip(choices, zones, strict=True) if zone not in (None, largest))
    return largest if largest == UTC_NAME or all(_shows_all_times(largest, choice) for choice in others) else UTC_NAME


def _shows_all_times(name: str, choice: Choice) -> bool:
    """Returns true if the clocks of a zone have shown all times that a stripe may hold by its statistics."""
    tail = choice.file.tail
    if tail.stripe_statistics is None or tail.writer_version < ORC_135 or not (zone := java_zone(name)).is_known:
        return False
    for number, item in enumerate(tail.types):
        part = tail.stripe_statistics[choice.stripe][number]
        times = part.timestamp_statistics
        if item.kind is not TypeKind.TIMESTAMP or (tail.complete_statistics and not part.number_of_values):
            continue
        if not times.HasField("minimum_utc") or not times.HasField("maximum_utc"):
            return False
        if not zone.shows_all(times.minimum_utc // 1000, times.maximum_utc // 1000):
            return False
    return True

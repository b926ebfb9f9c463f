"""Decides whether a compaction can be undone from quarantine, and what would move (PROTOCOL 11.15). Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from compactor.acid.directory import AcidDirectory, acid_directory
from compactor.acid.listing import FileStatus, Listing
from compactor.acid.names import Delta, known_directory, parse_directory
from compactor.acid.write_ids import ValidTxnList, ValidWriteIdList
from compactor.base.errors import BadName, Refused
from compactor.compaction.quarantine_rules import Record, names_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """The ids and columns of the table as they are now, its directory and the quarantine, and a reader's snapshot."""

    table_id: int
    partition_id: int | None
    columns: str
    here: Listing
    kept: Listing
    write_ids: ValidWriteIdList
    txns: ValidTxnList


@dataclass(frozen=True, slots=True, kw_only=True)
class Undo:
    """The moves that undo a compaction: names that go ``back`` to their place, in this order, and then ``outputs`` that are
    taken away. ``bytes`` are those of the files that go back."""

    back: tuple[str, ...]
    outputs: tuple[str, ...]
    bytes: int


def undo(record: Record, now: Situation) -> Undo:
    """Returns what undoing the compaction of ``record`` moves now, which may be less than all if a call died half-way.

    Raises:
        Refused: something depends on the compaction, or not everything is there; the message says what.
    """
    _must_be_of_this_table(record, now)
    inputs = _known_inputs(record)
    here, kept = now.here.lengths, now.kept.lengths
    outputs = _outputs(record, now.here)
    _must_be_one_by_one(outputs)
    taken = {path: length for path, length in kept.items() if _top(path) in record.outputs}
    _must_be_newest(record, now.here)
    _must_be_whole(record, here, {path: length for path, length in kept.items() if path not in taken})
    _must_be_unchanged(record, here, taken)
    back = tuple(name for name in names_of(now.kept) if name not in record.outputs)
    _must_read_the_inputs(now, inputs, back, outputs)
    size = sum(length for path, length in kept.items() if path not in taken)
    return Undo(back=back, outputs=outputs, bytes=size)


def _must_be_of_this_table(record: Record, now: Situation) -> None:
    if (record.table_id, record.partition_id) != (now.table_id, now.partition_id):
        raise Refused("the table or partition was dropped and made again since")
    if record.columns != now.columns:
        raise Refused(f"the table's columns were {record.columns} and are {now.columns}; change them back first")


def _known_inputs(record: Record) -> Mapping[str, int]:
    if not record.inputs or not record.outputs:
        raise Refused(
            "it is not known what it read: it made nothing, Hive's own worker did it, or compactor.quarantine was 0 when it "
            "committed"
        )
    everything = {**record.stays, **record.kept}
    for path, length in sorted(record.inputs.items()):
        if everything.get(path) != length:
            reason = record.removed.get(_top(path), "was gone when it was cleaned")
            raise Refused(f"{path}, which it read, was not kept: it {reason}")
    return record.inputs


def _outputs(record: Record, here: Listing) -> tuple[str, ...]:
    left = tuple(name for name in record.outputs if name in here.directories)
    if not left:
        raise Refused(
            f"its output {', '.join(record.outputs)} is not there: a later compaction or INSERT OVERWRITE has replaced it, "
            "or it was undone already"
        )
    return left


def _must_be_one_by_one(outputs: Iterable[str]) -> None:
    """Refuses a pair: between the renames of its halves every reader would read wrong rows, also after a crash."""
    ranges: dict[tuple[int, int], str] = {}
    for name in outputs:
        acid = parse_directory(name)
        if isinstance(acid, Delta):
            other = ranges.setdefault((acid.min_write_id, acid.max_write_id), name)
            if other != name:
                raise Refused(f"its output is a pair, {other} and {name}, which cannot be taken away in one step")


def _must_be_newest(record: Record, here: Listing) -> None:
    highest = max(map(_highest, record.outputs))
    known = {*record.names, *record.outputs, *map(_top, (*record.stays, *record.kept))}
    for name in filter(_is_acid, here.directories):
        if _highest(name) > highest:
            raise Refused(f"{name} holds later writes than its output, and they may depend on it")
        if name not in known:
            raise Refused(f"{name} was not there when it was cleaned: a later compaction or write made it")


def _must_be_whole(record: Record, here: Mapping[str, int], kept: Mapping[str, int]) -> None:
    for path, length in sorted(record.kept.items()):
        found = [place[path] for place in (here, kept) if path in place]
        if found != [length]:
            raise Refused(f"{path} had {length} bytes when it was kept, and now {_found(found)}")
    for path in sorted(kept.keys() - record.kept.keys()):
        raise Refused(f"{path} was put into the quarantine since")


def _must_be_unchanged(record: Record, here: Mapping[str, int], taken: Mapping[str, int]) -> None:
    stays = {**{path: length for path, length in here.items() if path not in record.kept}, **taken}
    for path in sorted({*stays, *record.stays}):
        if stays.get(path) != record.stays.get(path):
            found = [stays[path]] if path in stays else []
            was = "no such file" if path not in record.stays else f"{record.stays[path]} bytes"
            raise Refused(f"{path} has changed since it was cleaned: there was {was}, and now {_found(found)}")


def _must_read_the_inputs(
    now: Situation, inputs: Iterable[str], back: Collection[str], outputs: Collection[str]
) -> None:
    """Refuses if a reader would then read anything but what it reads now without the outputs, and what was compacted."""
    then = _afterwards(now, back, outputs)
    before, after = (acid_directory(listing, now.write_ids, now.txns) for listing in (now.here, then))
    if missing := set(outputs) - _read(before, now.here):
        raise Refused(f"{', '.join(sorted(missing))}: readers do not read it any longer, so something replaced it")
    names = {path if parse_directory(_top(path)) is None else _top(path) for path in inputs}
    wanted = (_read(before, now.here) - set(outputs)) | names
    found = _read(after, then)
    if found != wanted or after.unparsable:
        different = sorted({*(found ^ wanted), *after.unparsable})
        raise Refused(f"readers would not read what it read: {', '.join(different)} differ")


def _afterwards(now: Situation, back: Collection[str], outputs: Collection[str]) -> Listing:
    """Returns the listing of the directory once ``back`` is back and ``outputs`` are taken away."""
    tops = {_top(name) for name in back}
    returned = [file for file in now.kept.files if _top(file.path) in tops or file.path in back]
    files = [file for file in now.here.files if _top(file.path) not in outputs]
    directories = {*now.here.directories, *tops} - {*outputs, *_originals(back)}
    formats = {**now.here.data_formats, **now.kept.data_formats}
    return replace(
        now.here,
        files=tuple(sorted([*files, *returned], key=_path)),
        directories=tuple(sorted(directories)),
        data_formats=MappingProxyType({name: one for name, one in formats.items() if name not in outputs}),
    )


def _originals(back: Iterable[str]) -> set[str]:
    return {name for name in back if "/" not in name and parse_directory(name) is None}


def _read(directory: AcidDirectory, listing: Listing) -> set[str]:
    """Returns the names that a reader reads; of directories only those with a file, which a manifest can list."""
    bases = [directory.base] if directory.base is not None else []
    named = {one.directory for one in (*bases, *directory.deltas)} & {_top(file.path) for file in listing.files}
    return named | {file.path for file in directory.originals}


def _path(file: FileStatus) -> str:
    return file.path


def _top(path: str) -> str:
    return path.partition("/")[0]


def _is_acid(name: str) -> bool:
    try:
        return parse_directory(name) is not None
    except BadName:
        return True  # nobody knows what it is


def _highest(name: str) -> int:
    acid = known_directory(name)
    return 0 if acid is None else acid.highest_write_id


def _found(lengths: Collection[int]) -> str:
    return "is in two places" if len(lengths) > 1 else f"has {next(iter(lengths))}" if lengths else "is gone"

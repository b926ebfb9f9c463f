"""Decides whether a compaction can be undone from quarantine, and what would move (PROTOCOL 11.15).

Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from compactor.acid.directory import AcidDirectory, acid_directory
from compactor.acid.listing import FileStatus, Listing
from compactor.acid.names import Delta, known_directory, parse_directory
from compactor.acid.write_ids import ValidTxnList, ValidWriteIdList
from compactor.base.errors import BadName, Refused
from compactor.compaction.quarantine_rules import Record, list_names


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """The table's ids and columns now, its directory and the quarantine, and a reader's snapshot."""

    table_id: int
    partition_id: int | None
    columns: str
    here: Listing
    kept: Listing
    write_ids: ValidWriteIdList
    txns: ValidTxnList


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoPlan:
    """The moves that undo a compaction.

    First the names in ``back`` return to their place, in this order; then ``outputs`` are taken away. ``bytes`` is the size
    of the files that return.
    """

    back: tuple[str, ...]
    outputs: tuple[str, ...]
    bytes: int


def plan_undo(record: Record, now: Situation) -> UndoPlan:
    """Plans the moves that undo the compaction of ``record``, or those that a dead call left.

    Raises:
        Refused: something depends on the compaction, or files are missing; the message names them.
    """
    _must_be_of_this_table(record, now)
    inputs = _check_inputs(record)
    here, kept = now.here.lengths, now.kept.lengths
    outputs = _find_outputs(record, now.here)
    _must_not_be_pair(outputs)
    moved_outputs = {path: length for path, length in kept.items() if _top(path) in record.outputs}
    _must_be_newest(record, now.here)
    _must_be_complete(record, here, {path: length for path, length in kept.items() if path not in moved_outputs})
    _must_be_unchanged(record, here, moved_outputs)
    back = tuple(name for name in list_names(now.kept) if name not in record.outputs)
    _must_read_the_inputs(now, inputs, back, outputs)
    size = sum(length for path, length in kept.items() if path not in moved_outputs)
    return UndoPlan(back=back, outputs=outputs, bytes=size)


def _must_be_of_this_table(record: Record, now: Situation) -> None:
    if (record.table_id, record.partition_id) != (now.table_id, now.partition_id):
        raise Refused("the table or partition was dropped and created again since")
    if record.columns != now.columns:
        raise Refused(f"the table's columns were {record.columns} and are {now.columns}; change them back first")


def _check_inputs(record: Record) -> Mapping[str, int]:
    if not record.inputs or not record.outputs:
        raise Refused(
            "its inputs are not known: it wrote nothing, Hive's own worker ran it, or compactor.quarantine was 0 when it "
            "committed"
        )
    all_files = {**record.stays, **record.kept}
    for path, length in sorted(record.inputs.items()):
        if all_files.get(path) != length:
            reason = record.removed.get(_top(path), "was gone when it was cleaned")
            raise Refused(f"its input {path} was not kept: it {reason}")
    return record.inputs


def _find_outputs(record: Record, here: Listing) -> tuple[str, ...]:
    outputs = tuple(name for name in record.outputs if name in here.directories)
    if not outputs:
        raise Refused(
            f"its output {', '.join(record.outputs)} is gone: a later compaction or INSERT OVERWRITE has replaced it, "
            "or it was undone already"
        )
    return outputs


def _must_not_be_pair(outputs: Iterable[str]) -> None:
    """Refuses a pair.

    Between the renames of its halves, or after a crash there, readers would read wrong rows.
    """
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
            raise Refused(f"{name} has later writes than its output, which may depend on it")
        if name not in known:
            raise Refused(f"{name} did not exist when it was cleaned: a later compaction or write created it")


def _must_be_complete(record: Record, here: Mapping[str, int], kept: Mapping[str, int]) -> None:
    for path, length in sorted(record.kept.items()):
        lengths = [place[path] for place in (here, kept) if path in place]
        if lengths != [length]:
            raise Refused(f"{path} had {length} bytes when it was kept, and now {_describe_lengths(lengths)}")
    for path in sorted(kept.keys() - record.kept.keys()):
        raise Refused(f"{path} was put into the quarantine since")


def _must_be_unchanged(record: Record, here: Mapping[str, int], taken: Mapping[str, int]) -> None:
    stays = {**{path: length for path, length in here.items() if path not in record.kept}, **taken}
    for path in sorted({*stays, *record.stays}):
        if stays.get(path) != record.stays.get(path):
            lengths = [stays[path]] if path in stays else []
            before = "no such file" if path not in record.stays else f"{record.stays[path]} bytes"
            raise Refused(
                f"{path} has changed since it was cleaned: there was {before}, and now {_describe_lengths(lengths)}"
            )


def _must_read_the_inputs(
    now: Situation, inputs: Iterable[str], back: Collection[str], outputs: Collection[str]
) -> None:
    """Refuses unless a reader would read the compaction's inputs instead of its outputs.

    The rest must be read as now.
    """
    then = _listing_after(now, back, outputs)
    before, after = (acid_directory(listing, now.write_ids, now.txns) for listing in (now.here, then))
    if missing := set(outputs) - _names_read(before, now.here):
        raise Refused(f"{', '.join(sorted(missing))}: readers no longer read it, so something has replaced it")
    names = {path if parse_directory(_top(path)) is None else _top(path) for path in inputs}
    expected = (_names_read(before, now.here) - set(outputs)) | names
    actual = _names_read(after, then)
    if actual != expected or after.unparsable:
        different = sorted({*(actual ^ expected), *after.unparsable})
        raise Refused(f"readers would not read its inputs: {', '.join(different)} differ")


def _listing_after(now: Situation, back: Collection[str], outputs: Collection[str]) -> Listing:
    """Returns the listing of the directory once ``back`` is back and ``outputs`` are taken away."""
    tops = {_top(name) for name in back}
    returned = [file for file in now.kept.files if _top(file.path) in tops or file.path in back]
    files = [file for file in now.here.files if _top(file.path) not in outputs]
    directories = {*now.here.directories, *tops} - {*outputs, *_original_files(back)}
    formats = {**now.here.data_formats, **now.kept.data_formats}
    return replace(
        now.here,
        files=tuple(sorted([*files, *returned], key=_path)),
        directories=tuple(sorted(directories)),
        data_formats=MappingProxyType({name: format for name, format in formats.items() if name not in outputs}),
    )


def _original_files(back: Iterable[str]) -> set[str]:
    return {name for name in back if "/" not in name and parse_directory(name) is None}


def _names_read(directory: AcidDirectory, listing: Listing) -> set[str]:
    """Returns the names that a reader reads.

    Directories without files do not count: no manifest lists them.
    """
    bases = [directory.base] if directory.base is not None else []
    directories = {acid_dir.directory for acid_dir in (*bases, *directory.deltas)} & {
        _top(file.path) for file in listing.files
    }
    return directories | {file.path for file in directory.originals}


def _path(file: FileStatus) -> str:
    return file.path


def _top(path: str) -> str:
    return path.partition("/")[0]


def _is_acid(name: str) -> bool:
    try:
        return parse_directory(name) is not None
    except BadName:
        return True  # unknown, so it may be one


def _highest(name: str) -> int:
    acid = known_directory(name)
    return 0 if acid is None else acid.highest_write_id


def _describe_lengths(lengths: Collection[int]) -> str:
    return "is in two places" if len(lengths) > 1 else f"has {next(iter(lengths))}" if lengths else "is gone"

"""Turns attempt files into complete output directories in the staging directory, with a manifest.

Executors write to ``.compactor_v<txn>/attempts/``. The driver moves finished files to ``.compactor_v<txn>/out/<final
name>/``. Only these directories move to the table (PROTOCOL 3.1).
"""

from __future__ import annotations

import json
import secrets
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from compactor.acid.names import (
    ACID_VERSION,
    ACID_VERSION_FILE,
    METADATA_COMPACTED,
    METADATA_FILE,
    BucketFile,
    DeltaKind,
    Layout,
)
from compactor.acid.row_figures import RowFigures, merge_figures
from compactor.base.errors import CompactorError, StorageError, VerificationFailed
from compactor.base.ids import TxnId
from compactor.base.steps import Step, reach
from compactor.rewrite.plan.plan import Plan
from compactor.rewrite.plan.unit import Figures, Output, Shape, Unit, UnitResult
from compactor.storage.capabilities import Upload
from compactor.storage.protocol import Storage

_TOKEN_BYTES = 8  #: as many as nobody guesses while a compaction runs
ATTEMPTS = "attempts"
OUT = "out"
MANIFEST = "manifest.json"
MOST_BYTES = 64 * 1024 * 1024  #: of a manifest or record; enough for half a million files


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedFile:
    name: str
    length: int
    crc32: int | None  #: None if not every byte passed through the process that wrote it
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedDirectory:
    """A complete directory at the absolute path ``staged``. It becomes ``<location>/<name>``."""

    name: str
    staged: str
    files: tuple[StagedFile, ...]
    uploads: tuple[Upload, ...] = ()  #: of the files that naming completes; only the other files are in ``staged``


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """The directories to be named, in the order of naming."""

    location: str
    staging: str
    directories: tuple[StagedDirectory, ...]
    figures: Figures
    of_units: tuple[Figures, ...] = ()  #: the terms of the sum ``figures``; the first is that of the slices
    lengths: Mapping[str, int] = field(default_factory=dict)  #: those in the store, by ``<directory>/<file>``
    is_pair: bool = False  #: readers without visibility could see one half of a pair (PROTOCOL 5)
    row_figures: RowFigures | None = None  #: of a major's rows; None if some file does not give them


def token() -> str:
    """Returns the random part of a staging directory's name."""
    return secrets.token_hex(_TOKEN_BYTES)


def prepare(storage: Storage, plan: Plan) -> None:
    """Creates the staging directory, which nobody else may enter.

    Raises:
        StorageError: there is no room for as many bytes as the plan and its slices read, or the name is taken.
    """
    free = storage.free_bytes(plan.location)
    needed = plan.input_bytes + sum(of_slice.input_bytes for of_slice in plan.slices)
    if free is not None and free < needed:
        raise StorageError(
            f"{plan.location}: the compaction may write {needed} bytes and {free} are free; make room and request it again"
        )
    forget_uploads(storage, plan)
    storage.make_private(plan.staging, (ATTEMPTS, OUT))


def forget_uploads(storage: Storage, plan: Plan) -> None:
    """Aborts the uploads of attempts, which nobody will name any more."""
    deferring = storage.deferring(plan.location)
    if deferring is not None and plan.layout.has_visibility:
        deferring.abandon(plan.location, lambda txn: txn == plan.txn)


def units_with_targets(storage: Storage, plan: Plan) -> tuple[Unit, ...]:
    """Returns the plan's units.

    If the store completes uploads on request, they know their final directories.

    The names of these directories contain the transaction, which identifies an upload as ours. Without it, outputs are
    staged first.
    """
    if storage.deferring(plan.location) is None or not plan.layout.has_visibility:
        return plan.units
    final = [
        tuple((kind, f"{output.location}/{output.directory(kind)}") for kind in DeltaKind)
        for output in plan.outputs
        for _ in output.units
    ]
    return tuple(replace(unit, final=names) for unit, names in zip(plan.units, final, strict=True))


def accept(storage: Storage, plan: Plan, results: Sequence[UnitResult]) -> Staged:
    """Moves the units' attempt files into complete output directories, not yet durable.

    Every directory has a file. If all rows are gone, it gets one file without rows, because otherwise old rows would come
    back in Trino (PROTOCOL 1.4).

    Args:
        results: those of the plan's units, in order; every unit is done.
    """
    if not all(result.is_done for result in results):
        raise AssertionError(f"{plan.location}: a unit that was skipped would lose its rows")
    directories: list[StagedDirectory] = []
    files: dict[str, str | bytes] = {}
    remaining = list(results)
    is_pair = False
    for output in plan.outputs:
        of_output = remaining if output is plan else [remaining.pop(0) for _ in output.units]
        output_directories = _directories(output, of_output, files)
        is_pair = is_pair or len(output_directories) > 1
        directories += output_directories
    figures = (plan.before, *(result.figures for result in results))
    lengths = storage.adopt(f"{plan.staging}/{OUT}", files, like=plan.location)
    reach(Step.ACCEPTED)
    return Staged(
        location=plan.location,
        staging=plan.staging,
        directories=tuple(directories),
        figures=sum(figures, Figures()),
        of_units=figures,
        lengths=lengths,
        is_pair=is_pair,
        row_figures=_row_figures(plan, results),
    )


def _row_figures(plan: Plan, results: Iterable[UnitResult]) -> RowFigures | None:
    if plan.shape is not Shape.MAJOR or plan.chunks:
        return None
    of_files = [output.row_figures for result in results for output in result.outputs]
    return merge_figures([figures for figures in of_files if figures is not None]) if None not in of_files else None


def _directories(plan: Plan, results: Iterable[UnitResult], added: dict[str, str | bytes]) -> list[StagedDirectory]:
    """Returns one directory, or a pair with the rows first; adds their files to ``added``."""
    outputs = [output for result in results for output in result.outputs]
    kinds = sorted({o.kind for o in outputs}, key=lambda kind: kind is DeltaKind.DELETE)
    if plan.shape is Shape.MAJOR or not kinds:
        kinds = [DeltaKind.INSERT]
    return [_directory(plan, kind, [o for o in outputs if o.kind is kind], added) for kind in kinds]


def _directory(plan: Plan, kind: DeltaKind, outputs: list[Output], added: dict[str, str | bytes]) -> StagedDirectory:
    name = plan.directory(kind)
    files: list[StagedFile] = []
    for output in outputs:
        if output.upload is None:
            added[f"{name}/{output.name}"] = output.path
        files.append(StagedFile(name=output.name, length=output.length, crc32=output.crc32, rows=output.rows))
    if plan.file_format is None:
        _finish_acid(plan, name, files, added)
    elif not files:
        added[f"{name}/{ACID_VERSION_FILE}"] = ACID_VERSION  # hidden: some stores have no empty directories
    if plan.shape is Shape.MAJOR and plan.layout is Layout.PLAIN:
        # marks a compacted base, valid for every snapshot above its number, unlike a base of INSERT OVERWRITE
        added[f"{name}/{METADATA_FILE}"] = METADATA_COMPACTED
    uploads = tuple(output.upload for output in outputs if output.upload is not None)
    return StagedDirectory(name=name, staged=f"{plan.staging}/{OUT}/{name}", files=tuple(files), uploads=uploads)


def _finish_acid(plan: Plan, name: str, files: list[StagedFile], added: dict[str, str | bytes]) -> None:
    """Adds the side files of the directory ``name`` of ACID rows, and an empty data file if there is none."""
    if not files:
        number = min((unit.number for unit in plan.units), default=0)
        file = BucketFile(number=number).name
        version = None if plan.layout is Layout.VERSION_1 else ACID_VERSION
        # Every role reads what is staged, and few compactions need an empty file: it brings the libraries that write ORC.
        from compactor.rows.acid_file import empty_acid_file

        content = added[f"{name}/{file}"] = empty_acid_file(plan.row_type, version=version)
        files.append(StagedFile(name=file, length=len(content), crc32=zlib.crc32(content), rows=0))
    if plan.layout is not Layout.VERSION_1:
        added[f"{name}/{ACID_VERSION_FILE}"] = ACID_VERSION


def check_staged(storage: Storage, plan: Plan, staged: Staged) -> None:
    """Checks that the staged directories hold what the units reported, and that no unit lost a row.

    Raises:
        VerificationFailed: they do not. The caller fails the request, and the table stays as it was.
    """
    for figures in staged.of_units:  # their sum could hide that one unit lost rows and another doubled as many
        figures.check(plan.location, plan.shape)
    for directory in staged.directories:
        uploads = {upload.path.rpartition("/")[2]: upload for upload in directory.uploads}
        for file in directory.files:
            upload = uploads.get(file.name)
            stored = staged.lengths.get(f"{directory.name}/{file.name}", 0)
            length = stored if upload is None else _held_bytes(storage, upload)
            if length != file.length:
                raise VerificationFailed(
                    f"{directory.staged}/{file.name}: has {length} bytes, {file.length} were written; nothing was "
                    "changed, request it again"
                )
    reach(Step.VERIFIED)


def _held_bytes(storage: Storage, upload: Upload) -> int:
    deferring = storage.deferring(upload.path)
    assert deferring is not None
    return deferring.held_bytes(upload)


def write_manifest(storage: Storage, plan: Plan, staged: Staged, inputs: Mapping[str, int], *, entry_id: int) -> None:
    """Writes ``manifest.json``: entry, transaction, inputs, and the output directories with their files.

    It is removed last, after the output is committed or hidden, because it proves that hiding loses no row (PROTOCOL 11.6).

    Args:
        inputs: path and length of each file that was read.
    """
    manifest: Mapping[str, Any] = {
        "entry": entry_id,
        "transaction": plan.txn,
        "inputs": [{"path": path, "length": length} for path, length in sorted(inputs.items())],
        "directories": [
            {
                "name": directory.name,
                "files": [
                    {"name": f.name, "length": f.length, "crc32": f.crc32, "rows": f.rows} for f in directory.files
                ],
            }
            for directory in staged.directories
        ],
    }
    storage.write(f"{plan.staging}/{MANIFEST}", json.dumps(manifest).encode())


def make_durable(storage: Storage, plans: Iterable[Plan]) -> Mapping[str, StorageError]:
    """Makes the staged directories and manifests of some plans durable: the last step before naming.

    Returns:
        The errors by staging directory. These plans must not be named.
    """
    places = {plan.staging: (f"{plan.staging}/{OUT}", f"{plan.staging}/{MANIFEST}") for plan in plans}
    failed = storage.sync([place for both in places.values() for place in both])
    errors = {staging: next((failed[p] for p in both if p in failed), None) for staging, both in places.items()}
    for error in errors.values():
        if error is None:
            reach(Step.MANIFEST_WRITTEN)
    return {staging: error for staging, error in errors.items() if error is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """A manifest.

    ``inputs`` maps the paths of files to their lengths; ``outputs`` are names of directories.
    """

    txn: TxnId | None
    inputs: Mapping[str, int]
    outputs: tuple[str, ...]


def read_manifest(storage: Storage, path: str) -> Manifest | None:
    """Returns the manifest at ``path``; None if it does not exist or cannot be read."""
    try:
        length = storage.length(path) if storage.exists(path) else 0
        if not 0 < length <= MOST_BYTES:
            return None
        content = json.loads(storage.read_range(path, 0, length))  # never more than was checked
        txn = content.get("transaction")
        return Manifest(
            txn=None if txn is None else TxnId(int(txn)),
            inputs={str(file["path"]): int(file["length"]) for file in content["inputs"]},
            outputs=tuple(str(directory["name"]) for directory in content["directories"]),
        )
    except (CompactorError, ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        return None

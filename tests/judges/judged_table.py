"""A generated table on disk: others write its files, we compact them, and judges read them."""

from __future__ import annotations

import re
import shutil
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

from compactor.acid.directory import acid_directory
from compactor.acid.names import METADATA_COMPACTED, METADATA_FILE, Layout
from compactor.acid.write_ids import ValidTxnList, ValidWriteIdList
from compactor.base.ids import NOTHING_OPEN, TxnId, WriteId
from compactor.orc.codecs import arrow_codec
from compactor.rewrite.full_acid.rebalance import plan_rebalance
from compactor.rewrite.plan.file_format import FileFormat
from compactor.rewrite.plan.plan import PlanContext, plan
from compactor.rewrite.plan.unit import Shape, Unit, UnitResult
from compactor.storage.local import LocalStorage
from tests.judges import PYORC, JavaJudge, Judge, Predicate, Row, orc_2_3
from tests.judges.examples import WRITERS, Directory, Example, Round
from tests.judges.values import row_type
from tests.support.folders import staging_of
from tests.support.units import run_units

_ACID = "struct<operation:int,originalTransaction:bigint,bucket:int,rowId:bigint,currentTransaction:bigint,row:{}>"
_DELETES = 2  #: the statement that deletes; it follows those that insert

Key = tuple[int, int, int]  #: write ID, bucket property and row ID: a row's ROW__ID


def _bucket_property(bucket: int, statement: int | None) -> int:
    return 1 << 29 | bucket << 16 | (statement or 0)


@dataclass(slots=True, kw_only=True)
class JudgedTable:
    """The table of an example in the directory ``root``. Readers see no row that was deleted or whose write was aborted."""

    example: Example
    root: Path
    layout: Layout = Layout.VISIBILITY
    small: int = 0  #: stripes of fewer bytes are merged
    full_verify: bool = False
    as_large: bool = False  #: divided into tasks, and encoded stripe by stripe, as if there were many rows
    written: dict[int, str] = field(default_factory=dict)  #: the rows that readers have to show, by number
    highest: int = 0  #: write ID so far
    _answers: dict[tuple[Any, ...], list[list[Row]]] = field(default_factory=dict)

    def write(self, written: Round) -> None:
        """Writes the directories of a round and its delete events."""
        for directory in written.directories:
            self._write_directory(directory)
        events: dict[tuple[int, int], list[Key]] = defaultdict(list)
        keys = {row[0]: key for key, row in self._rows(orc_2_3())} if written.deleted else {}
        for number, write_id in written.deleted.items():
            if number in keys:
                events[write_id, keys[number][1] >> 16 & 0xFFF].append(keys[number])
            if write_id not in self.example.aborted:
                self.written.pop(number, None)
        for (write_id, bucket), deleted in events.items():
            name = f"delete_delta_{write_id:07}_{write_id:07}_{_DELETES:04}"
            path = self.root / name / f"bucket_{bucket:05}"
            path.parent.mkdir(exist_ok=True)
            rows = [(2, *key, write_id, None) for key in sorted(deleted)]
            orc_2_3().write(path, _ACID.format(self.example.row_type), rows)
            self.highest = max(self.highest, write_id)

    def _write_directory(self, directory: Directory) -> None:
        folder = self.root / directory.name
        folder.mkdir(exist_ok=True)
        copies: dict[int, int] = defaultdict(int)
        self.highest = max(self.highest, directory.last)
        for file in directory.files:
            copy = f"_copy_{copies[file.bucket]}" if copies[file.bucket] else ""
            copies[file.bucket] += 1
            name = f"{file.bucket:06}_0{copy}" if directory.raw else f"bucket_{file.bucket:05}"
            span = directory.last - directory.first + 1
            write_ids = [directory.first + at * span // len(file.rows) for at in range(len(file.rows))]
            bucket = _bucket_property(file.bucket, directory.statement)
            rows: Sequence[Row] = file.rows
            if not directory.raw:
                rows = [
                    (0, write_id, bucket, at - write_ids.index(write_id), write_id, row)
                    for at, (write_id, row) in enumerate(zip(write_ids, file.rows, strict=True))
                ]
            schema = file.row_type if directory.raw else _ACID.format(file.row_type)
            WRITERS[file.writer].write(folder / name, schema, rows, **file.options)
            for write_id, row in zip(write_ids, file.rows, strict=True):
                if write_id not in self.example.aborted:
                    self.written[row[0]] = repr(self._padded(row))

    def compact(self, compaction: str) -> None:
        """Compacts the table as a worker does.

        Raises:
            NotSupported, NotLossless, Refused: the compaction is refused.
        """
        write_ids = ValidWriteIdList(
            table="d.t", high_watermark=WriteId(1000), aborted=frozenset(map(WriteId, self.example.aborted))
        )
        listing = LocalStorage().listing(str(self.root))
        directory = acid_directory(listing, write_ids, ValidTxnList(high_watermark=TxnId(NOTHING_OPEN)))
        context = PlanContext(
            location=str(self.root),
            txn=TxnId(7),
            write_ids=write_ids,
            row_type=self.example.row_type,
            layout=self.layout,
            file_format=None if self.example.acid else FileFormat.ORC,
            small_stripe_bytes=self.small,
            full_verify=self.full_verify,
        )
        work = plan(directory, Shape.MINOR if compaction == "minor" else Shape.MAJOR, context)
        if compaction == "rebalance":
            work = plan_rebalance(work, WriteId(self.highest + 1), None, ())
        staging = staging_of(self.root)
        try:
            outputs = [output for result in self._run(work.units) for output in result.outputs]
            for name in work.inputs:
                path = self.root / name
                shutil.rmtree(path) if path.is_dir() else path.unlink()
            for output in outputs:
                folder = self.root / work.directory(output.kind)
                folder.mkdir(exist_ok=True)
                Path(output.path).rename(folder / output.name)
                if folder.name.startswith("base") and not self.layout.has_visibility:
                    (folder / METADATA_FILE).write_bytes(METADATA_COMPACTED)
        finally:
            shutil.rmtree(staging)
        self.highest += compaction == "rebalance"

    def _run(self, units: Sequence[Unit]) -> list[UnitResult]:
        if not self.as_large:
            return run_units(units)
        with patch.object(arrow_codec, "BUFFERED_BYTES", -1):
            return run_units([replace(unit, split_bytes=1) for unit in units])

    def answers(self, judge: Judge) -> list[dict[int, str]]:
        """Returns the rows that a judge finds: all of them, then those for each predicate of the example."""
        predicates = self.example.predicates
        answers: list[dict[int, str]] = [{} for _ in (None, *predicates)]
        gone = self._gone(judge)
        for path, write_id, first_row in self._files():
            rows, *of_predicates = self._ask(judge, path, tuple(predicates))
            visible = {row[0] for key, row in self._keyed(path, rows, write_id, first_row) if key not in gone}
            is_acid, texts = _is_acid(path), {}
            for answer, rows_found in zip(answers, [rows, *of_predicates], strict=True):
                for whole in rows_found:
                    row = whole[-1] if is_acid else whole
                    if row[0] in visible:
                        assert row[0] not in answer, f"{judge.name} shows row {row[0]} twice"
                        if (text := texts.get(id(whole))) is None:
                            text = texts[id(whole)] = as_shown(judge, repr(self._padded(row)))
                        answer[row[0]] = text
        return answers

    def _ask(self, judge: Judge, path: Path, predicates: Sequence[Predicate] = ()) -> list[list[Row]]:
        """Returns the rows that a judge finds in a file: all of them, then those for each predicate.

        A judge is asked once for each file, since files never change.
        """
        question = judge.name, path, path.stat().st_ino, predicates
        if question not in self._answers:
            schema = PYORC.schema(path) if predicates else ""
            known = [predicate for predicate in predicates if _has(schema, predicate)]
            rows, *of_known = judge.answers(path, [None, *known])
            hits = iter(of_known)
            self._answers[question] = [rows] + [
                next(hits) if predicate in known else rows if predicate.finds_null else [] for predicate in predicates
            ]
        return self._answers[question]

    def _padded(self, row: Row) -> Row:
        """Returns a row of an older file as the table shows it."""
        columns = self.example.columns
        values = [column.pad(value) for column, value in zip(columns, row, strict=False)]
        return (*values, *(None,) * (len(columns) - len(values)))

    def _rows(self, judge: Judge) -> Iterator[tuple[Key, Row]]:
        for path, write_id, first_row in self._files():
            yield from self._keyed(path, self._ask(judge, path)[0], write_id, first_row)

    def _keyed(self, path: Path, rows: Sequence[Row], write_id: int, first_row: int) -> Iterator[tuple[Key, Row]]:
        """Yields the ROW__ID and values of each row whose write was not aborted."""
        aborted = self.example.aborted
        if _is_acid(path):
            yield from ((row[1:4], row[-1]) for row in rows if row[4] not in aborted)
        elif write_id not in aborted:
            bucket = _bucket_property(int(path.name[:6]), _numbers(path.parent.name)[2])
            yield from (((write_id, bucket, first_row + at), row) for at, row in enumerate(rows))

    def _files(self) -> Iterator[tuple[Path, int, int]]:
        """Yields each file with rows, the write ID of its directory, and the row ID of its first row if it is raw."""
        folders = [self.root, *self.root.glob("base_*"), *self.root.glob("delta_*")]
        for folder in folders:
            first, last, _ = _numbers(folder.name)
            if folder.name.startswith("delta") and self.example.aborted.issuperset(range(first, last + 1)):
                continue
            rows: dict[str, int] = defaultdict(int)
            for path in sorted(path for path in folder.iterdir() if path.is_file() and path.name != METADATA_FILE):
                yield path, first, rows[path.name[:6]]
                if not _is_acid(path):
                    rows[path.name[:6]] += PYORC.count(path)

    def _gone(self, judge: Judge) -> set[Key]:
        paths = self.root.glob("delete_delta_*/bucket_*")
        events = (row for path in paths for row in self._ask(judge, path)[0])
        return {row[1:4] for row in events if row[4] not in self.example.aborted}


def as_shown(judge: Judge, row: str) -> str:
    """Returns a row as a judge shows it: ORC Java takes a batch of zeros of both signs for one repeated value."""
    return re.sub(r"-0\.0(?!\d|e)", "0.0", row) if isinstance(judge, JavaJudge) else row


def _is_acid(path: Path) -> bool:
    return path.name.startswith("bucket_")


def _numbers(name: str) -> tuple[int, int, int]:
    """Returns the first and last write ID and the statement of a directory; the table's own has 0."""
    if not (match := re.match(r"(?:base|delta)_(\d+)(?:_(\d+))?(?:_(\d+))?", name)):
        return 0, 0, 0
    first, last, statement = match.groups()
    return int(first), int(last or first), int(statement or 0)


def _has(schema: str, predicate: Predicate) -> bool:
    """Tells whether a file of this schema has the column of a predicate."""
    kind = row_type(schema)
    for part in predicate.column.split("."):
        if part not in kind.fields:
            return False
        kind = kind.fields[part]
    return True

"""A major over Hive 2's events, compared with an oracle that reads row by row."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.orc as po
import pytest

from compactor.acid.directory import acid_directory
from compactor.acid.names import Layout
from compactor.acid.write_ids import ValidTxnList, ValidWriteIdList
from compactor.base.errors import NotLossless
from compactor.base.ids import TxnId, WriteId
from compactor.orc.format.tail import read_tail
from compactor.orc.io.source import LocalSource
from compactor.rewrite.full_acid import delete_events
from compactor.rewrite.plan.plan import PlanContext, plan
from compactor.rewrite.plan.unit import Shape
from compactor.rewrite.publish import naming, stage
from compactor.storage.local import LocalStorage
from tests.support.acid_files import ROW_TYPE, Key, write_events_mixed
from tests.support.oracle import read_directory
from tests.support.sizes import sized
from tests.support.units import execute

STORAGE = LocalStorage()
HIGH, ABORTED = 40, frozenset({7, 23})
SEEN = ValidWriteIdList(table="d.t", high_watermark=WriteId(HIGH), aborted=frozenset(map(WriteId, ABORTED)))
TXNS = ValidTxnList(high_watermark=TxnId(HIGH))
Event = tuple[int, Key, int]  #: operation, key, current transaction


def staged_of(location: Path, small: int = 1 << 20) -> stage.Staged:
    directory = acid_directory(STORAGE.listing(str(location)), SEEN.for_compactor(), TXNS)
    made = plan(
        directory,
        Shape.MAJOR,
        PlanContext(
            location=str(location),
            txn=TxnId(1),
            write_ids=SEEN.for_compactor(),
            row_type=ROW_TYPE,
            layout=Layout.VERSION_1,
            small_stripe_bytes=small,
            full_verify=True,
        ),
    )
    stage.prepare(STORAGE, made)
    staged = stage.accept(STORAGE, made, [execute(unit) for unit in made.units])
    stage.check_staged(STORAGE, made, staged)
    return staged


def compacted(location: Path, small: int = 1 << 20) -> Path:
    """Returns the base that a major makes of ``location``, named beside its inputs."""
    staged = staged_of(location, small)
    naming.name_directories(STORAGE, staged)
    return location / staged.directories[0].name


def read_rows(location: Path) -> list[tuple[object, ...]]:
    return sorted((*row_id, *row) for row_id, row in read_directory(location, SEEN, TXNS))


def delta(location: Path, name: str, bucket: int, found: list[Event]) -> Path:
    """Writes a file of Hive 2: events in key order, those of one key newest first."""
    ordered = sorted(found, key=lambda event: (*event[1], -event[2]))
    return write_events_mixed(location / name / f"bucket_{bucket:05d}", ordered)


def history(location: Path, seed: int) -> None:
    """Writes inserts, and transactions that change or delete some rows, in deltas named as Hive 2 and its compactor do."""
    chance = random.Random(seed)
    ranges: list[tuple[int, int]] = []
    while not ranges or ranges[-1][1] < HIGH:
        first = ranges[-1][1] + 1 if ranges else 1
        ranges.append((first, min(HIGH, first + chance.choice([0, 0, 0, 4]))))
    for bucket in (0, 1):
        alive: list[Key] = []
        pending: list[list[Event]] = []
        for txn in range(1, HIGH + 1):
            found: list[Event] = []
            inserted = [(txn, bucket, row) for row in range(chance.choice([0, 1, 3, 40]))]
            found += [(0, key, txn) for key in inserted]
            gone = []
            for key in chance.sample(alive, min(len(alive), chance.choice([0, 0, 1, 5]))):
                operation = chance.choice([1, 2])
                found.append((operation, key, txn))
                gone += [key] if operation == 2 else []
            if txn not in ABORTED:
                alive = [key for key in alive if key not in gone] + inserted
            pending.append(found)
        for first, last in ranges:
            merged = [event for found in pending[first - 1 : last] for event in found]
            if merged:
                delta(location, f"delta_{first:07d}_{last:07d}" + ("_0000" if first == last else ""), bucket, merged)


@pytest.mark.parametrize("seed", range(sized(short=3, whole=12)))
@pytest.mark.parametrize("run", [delete_events.RUN, 8], ids=["held", "spilled"])
def test_a_base_holds_the_rows_that_hive_2_shows(
    tmp_path: Path, seed: int, run: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PROTOCOL 1.7, in memory and with events in many runs on disk."""
    monkeypatch.setattr(delete_events, "RUN", run)
    monkeypatch.setattr(delete_events, "BLOCK", max(2, run // 4))
    monkeypatch.setattr("compactor.rewrite.full_acid.hive2_events.BLOCK", max(2, run // 4))
    history(tmp_path, seed)
    wanted = read_rows(tmp_path)
    base = compacted(tmp_path, small=0)
    assert read_rows(tmp_path) == wanted  # through the base and what lies above it
    for child in tmp_path.iterdir():
        if child != base and not child.name.startswith("."):
            shutil.rmtree(child)
    assert read_rows(tmp_path) == wanted
    for file in base.glob("bucket_*"):
        table = po.ORCFile(str(file)).read()
        assert set(table["operation"].to_pylist()) <= {0}
        assert set(table["bucket"].to_pylist()) <= {int(file.name[-5:])}
        with LocalSource(str(file)) as source:
            assert set(read_tail(source).user_metadata) == {"hive.acid.key.index", "hive.acid.stats"}
    assert {path.name for path in base.iterdir()} == {"bucket_00000", "bucket_00001"}


def test_stripes_without_changes_are_copied(tmp_path: Path) -> None:
    delta(tmp_path, "delta_0000001_0000001_0000", 0, [(0, (1, 0, row), 1) for row in range(50)])
    delta(tmp_path, "delta_0000002_0000002_0000", 0, [(0, (2, 0, row), 2) for row in range(50)])
    delta(tmp_path, "delta_0000003_0000003_0000", 0, [(2, (2, 0, 7), 3), (2, (2, 0, 9), 3)])
    figures = staged_of(tmp_path, small=0).figures
    assert (figures.stripes_copied, figures.stripes_encoded, figures.stripes_dropped) == (1, 1, 1)
    assert (figures.rows_in, figures.rows_out, figures.rows_deleted) == (102, 98, 4)


def test_a_row_that_its_own_transaction_inserted_and_changed(tmp_path: Path) -> None:
    delta(tmp_path, "delta_0000001_0000001_0000", 0, [(0, (1, 0, 0), 1), (0, (1, 0, 1), 1), (0, (1, 0, 2), 1)])
    delta(tmp_path, "delta_0000001_0000001_0001", 0, [(1, (1, 0, 0), 1), (2, (1, 0, 1), 1)])
    compacted(tmp_path)
    assert [row[:3] for row in read_rows(tmp_path)] == [(1, 0, 0), (1, 0, 2)]


def test_two_changes_of_a_row_by_one_transaction_are_refused(tmp_path: Path) -> None:
    """PROTOCOL 1.7: rows are kept as readers show them, or refused by name."""
    delta(tmp_path, "delta_0000001_0000001_0000", 0, [(0, (1, 0, row), 1) for row in range(20)])
    delta(tmp_path, "delta_0000002_0000002_0000", 0, [(1, (1, 0, 5), 2)])
    delta(tmp_path, "delta_0000002_0000002_0001", 0, [(2, (1, 0, 5), 2)])
    with pytest.raises(NotLossless, match=r"transaction 2 changed the row \(1, 0, 5\) twice"):
        compacted(tmp_path)


def test_an_unknown_operation_is_refused(tmp_path: Path) -> None:
    delta(tmp_path, "delta_0000001_0000001_0000", 0, [(0, (1, 0, 0), 1), (3, (1, 0, 1), 1)])
    with pytest.raises(NotLossless, match="operations other than 0, 1 and 2"):
        compacted(tmp_path)


def test_originals_get_the_numbers_that_hive_2_gives_them(tmp_path: Path) -> None:
    for bucket in (0, 1):
        po.write_table(pa.table({"a": pa.array([4, 5, 6], pa.int32())}), str(tmp_path / f"00000{bucket}_0"))
    delta(tmp_path, "delta_0000001_0000001_0000", 1, [(1, (0, 1, 1), 1), (2, (0, 1, 2), 1)])
    compacted(tmp_path)
    assert read_rows(tmp_path) == [(0, 0, 0, 4), (0, 0, 1, 5), (0, 0, 2, 6), (0, 1, 0, 4), (0, 1, 1, 1)]


@pytest.mark.parametrize("name", ["000000_0_copy_1", "HIVE_UNION_SUBDIR_1/000000_0"])
def test_originals_that_share_row_ids_are_refused(tmp_path: Path, name: str) -> None:
    delta(tmp_path, "delta_0000001_0000001_0000", 0, [(2, (0, 0, 1), 1)])
    for file in (tmp_path / "000000_0", tmp_path / name):
        file.parent.mkdir(exist_ok=True)
        po.write_table(pa.table({"a": pa.array([4, 5], pa.int32())}), str(file))
    with pytest.raises(NotLossless, match="the same ROW__IDs"):
        compacted(tmp_path)


def test_if_every_row_is_deleted_an_empty_hive_2_file_remains(tmp_path: Path) -> None:
    delta(tmp_path, "delta_0000001_0000001_0000", 0, [(0, (1, 0, 0), 1)])
    delta(tmp_path, "delta_0000002_0000002_0000", 0, [(2, (1, 0, 0), 2)])
    base = compacted(tmp_path)
    assert [path.name for path in base.iterdir()] == ["bucket_00000"]
    assert read_rows(tmp_path) == []
    with LocalSource(str(base / "bucket_00000")) as source:
        assert "hive.acid.version" not in read_tail(source).user_metadata

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from compactor.site.site import Site
from demo.measure import digest_rows, measure
from demo.snapshot_reader import ROW_ID_COLUMNS
from tests.support.tables import delete, insert, make_table


def part(*rows: tuple[int, str | None]) -> pa.Table:
    """Rows with a key whose numbers are all the same but the last."""
    keys = {name: pa.array([1] * len(rows), pa.int64()) for name in ROW_ID_COLUMNS[:-1]}
    last = pa.array([number for number, _ in rows], pa.int64())
    return pa.table({**keys, ROW_ID_COLUMNS[-1]: last, "b": pa.array([text for _, text in rows], pa.string())})


ROWS = ((0, "x"), (1, None), (2, "z"))


def test_the_order_of_reading_does_not_count() -> None:
    assert digest_rows([part(*ROWS)]) == digest_rows([part(*reversed(ROWS))])


@pytest.mark.parametrize(
    "other",
    [[part(*ROWS[:2])], [part((0, "x"), (1, ""), (2, "z"))], [part((0, "x"), (1, None), (3, "z"))], [], [part()]],
    ids=["a row less", "an empty text for NULL", "another ROW__ID", "nothing", "no rows"],
)
def test_every_value_and_every_row_id_counts(other: list[pa.Table]) -> None:
    assert digest_rows(other) != digest_rows([part(*ROWS)])


def test_rows_that_move_to_another_partition_count() -> None:
    assert digest_rows([part(*ROWS[:1]), part(*ROWS[1:])]) != digest_rows([part(*ROWS[:2]), part(*ROWS[2:])])


def test_what_a_reader_finds_now(deployment: Site, warehouse: Path) -> None:
    table = make_table(deployment, warehouse)
    insert(deployment, table, range(4))
    insert(deployment, table, range(10, 14), commits=False)
    full = measure(deployment, "default", "t")
    assert (full.table, full.partitions, full.rows) == ("default.t", 0, 4)
    files = [path for path in (warehouse / "t").rglob("*") if path.is_file()]
    assert (full.directories, full.files) == (2, len(files))
    assert full.bytes == sum(path.stat().st_size for path in files)
    assert measure(deployment, "default", "t").checksum == full.checksum
    delete(deployment, table, [3])
    less = measure(deployment, "default", "t")
    assert (less.rows, less.directories) == (3, 3)
    assert less.checksum != full.checksum

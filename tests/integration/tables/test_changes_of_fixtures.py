"""Changes of tables that a real Hive or Trino wrote: their own answers before and after are the judge."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from compactor.base.errors import ChangesGone, SnapshotExpired
from compactor.site.site import Site
from compactor.tables import Store
from compactor.tables.reading.change_feed import CHANGE_TYPE
from compactor.tables.schema import ROW_ID
from demo.fixtures import register_fixture
from tests.support.expected import in_order, read_expected, step_id, steps
from tests.support.tables import with_settings

Rows = Counter[tuple[tuple[int, int, int], str]]  #: ROW__ID and the first column
#: TRUNCATE of Hive 3.1 removes files without a write ID, so nothing tells that older versions had rows (docs/changes.md).
_TRUNCATED = ("hive-3.1/g1_nobucket/s5_truncate", "hive-3.1/g1_nobucket/s6_after_truncate")
STEPS = [path for path in steps("hive-3.1", "hive-4.1", "trino-476") if step_id(path) not in _TRUNCATED]
#: Steps with a whole feed and with a refused one, in `make test`.
_FEW = ("hive-4.1/f1_basic/s3_delete_insert", "hive-4.1/f1_basic/s10_dml_over_base", "hive-3.1/f4_stmtids/s1_merge")


def shown(path: Path) -> Rows:
    return Counter((tuple(row_id), line.split("\t")[0]) for row_id, line in read_expected(path).row_ids)


def values_alone(rows: Rows) -> Counter[str]:
    return Counter(value for _, value in rows.elements())


def version(path: Path) -> int | None:
    """Returns the last write ID that a step's metastore had given to the table."""
    text = (path / "txn_tables.txt").read_text("utf-8")
    match = re.search(rf"^ *default \| {path.parts[-2]} \| (\d+)$", text.partition("[NEXT_WRITE_ID]")[2], re.MULTILINE)
    return None if match is None else int(match[1]) - 1


def read(rows: pa.Table) -> Rows:
    first = next(name for name in rows.schema.names if name != ROW_ID)
    values = ["NULL" if value is None else str(value) for value in rows[first].to_pylist()]
    return Counter(zip((tuple(key.values()) for key in rows[ROW_ID].to_pylist()), values, strict=True))


def whole(path: Path) -> object:
    return pytest.param(path, id=step_id(path), marks=[] if step_id(path) in _FEW else pytest.mark.whole)


@pytest.mark.parametrize("path", [whole(path) for path in STEPS])
def test_an_older_answer_and_the_changes_since_give_the_newer_answer(
    deployment: Site, warehouse: Path, path: Path
) -> None:
    site = with_settings(deployment, hive_txn_opentxn_timeout="1ms")
    registered = register_fixture(site.metastore, path, warehouse)
    table = Store(site).load_table(str(registered))
    current, first = table.version(), registered.columns[0].name
    earlier = [step for step in sorted(path.parent.iterdir(), key=in_order) if step in STEPS]
    for step in earlier[: earlier.index(path) + 1]:
        since = version(step)
        if since is None or since > current:
            continue
        try:
            changes = table.changes(since, selected_fields=[first], net=True).read_all()
            rows = read(table.scan(selected_fields=[first], row_ids=True, as_of=since).to_arrow())
        except (ChangesGone, SnapshotExpired):
            continue
        inserts = read(changes.filter(pc.equal(changes[CHANGE_TYPE], "insert")))
        deletes = read(changes.filter(pc.equal(changes[CHANGE_TYPE], "delete")))
        if "rebalance" in path.name:  # Hive's gives rows new ROW__IDs without a write
            assert values_alone(rows) == values_alone(shown(step))
        else:
            assert rows == shown(step), step
        expected = rows + inserts
        expected.subtract(deletes)
        assert +expected == shown(path), step
        assert min(expected.values(), default=0) >= 0

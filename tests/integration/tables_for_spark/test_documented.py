"""Every example of docs/spark-tables.md, run in the order of the page in one session."""

from __future__ import annotations

import datetime
import re
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from compactor.site.site import Site
from compactor.tables import Store
from tests.support.spark_sessions import ROOT, local_session

pytestmark = [pytest.mark.whole, pytest.mark.filterwarnings("ignore::ResourceWarning")]
PAGE = ROOT / "docs" / "spark-tables.md"
EXAMPLES = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE)


def test_the_examples_run(
    deployment: Site, warehouse: Path, metastore_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(deployment)
    store.create_database("sales", str(warehouse))
    made = {"id": "bigint", "amount": "decimal(10,2)", "status": "string", "day": "date"}
    orders = store.create_table("sales.orders", made, partitioned_by=["day"])
    day = datetime.date(2026, 11, 1)
    orders.append(
        pa.table({"id": [1, 5], "amount": [Decimal("7"), Decimal("12")], "status": ["new", "new"], "day": [day, day]})
    )
    store.create_table("sales.customers", {"id": "bigint", "name": "string"}).append(
        pa.table({"id": [5], "name": ["E"]})
    )
    folder = tmp_path / "arriving"
    folder.mkdir()
    (folder / "1.json").write_text('{"id": 20, "status": "new", "day": "2026-11-03"}')
    monkeypatch.setenv("COMPACTOR_METASTORE_URL", metastore_url)
    with local_session(tmp_path) as session:
        folders = {name: str(tmp_path / name) for name in ("checkpoint", "seen", "copied")}
        names: dict[str, object] = {"spark": session, "folder": str(folder), **folders}
        for example in EXAMPLES:
            exec(compile(example, str(PAGE), "exec"), names)
    ids = [row["id"] for row in orders.scan(selected_fields=["id"]).to_arrow().to_pylist()]
    assert (ids.count(20), ids.count(7)) == (1, 2)  # of a stream, and of a batch that was written twice
    assert len(EXAMPLES) >= 3

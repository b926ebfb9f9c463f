"""The example in Python of docs/sql.md."""

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
PAGE = ROOT / "docs" / "sql.md"
EXAMPLES = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE)


def test_the_example_runs(
    deployment: Site, warehouse: Path, metastore_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(deployment)
    store.create_database("sales", str(warehouse))
    made = {"id": "bigint", "amount": "decimal(10,2)", "status": "string", "day": "date"}
    orders = store.create_table("sales.orders", made, partitioned_by=["day"])
    day = datetime.date(2026, 11, 1)
    orders.append(pa.table({"id": [1, 5], "amount": [7, 12], "status": ["new", "DONE"], "day": [day, day]}))
    monkeypatch.setenv("COMPACTOR_METASTORE_URL", metastore_url)
    with local_session(tmp_path) as session:
        for example in EXAMPLES:
            exec(compile(example, str(PAGE), "exec"), {"spark": session})
    assert store.load_table("sales.done").scan(selected_fields=["id"]).to_arrow().to_pylist() == [{"id": 5}]
    found = orders.scan(selected_fields=["id", "amount", "status"]).to_arrow().sort_by("id").to_pylist()
    assert [tuple(row.values()) for row in found] == [(1, Decimal(7), "new"), (5, Decimal(24), "done")]
    assert len(EXAMPLES) == 1

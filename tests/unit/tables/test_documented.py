"""Every example of docs/tables.md and docs/changes.md, run in the order of the page over one metastore."""

from __future__ import annotations

import re
from contextlib import ExitStack
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from compactor.compaction.queue_entry import Entity
from compactor.metastore.catalog.embedded import NewTable
from compactor.metastore.catalog.values import Column
from compactor.site.site import Site
from compactor.tables import open_metastore
from compactor.tables.transactions.transaction import WriteOperation
from compactor.tables.transactions.transaction_block import transaction
from demo.delta_writer import write_rows

PAGE = Path(__file__).parents[3] / "docs" / "tables.md"
CHANGES_PAGE = PAGE.with_name("changes.md")
EXAMPLES = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE)


@pytest.fixture
def orders(deployment: Site, warehouse: Path, metastore_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The table that the page speaks of, in the metastore that the environment names."""
    embedded = deployment.metastore.embedded_catalog
    embedded.create_database("sales", str(warehouse))
    names = {"id": "bigint", "amount": "decimal(10,2)", "status": "string"}
    columns = [Column(name=name, type=kind) for name, kind in names.items()]
    day = Column(name="day", type="date")
    location = str(warehouse / "orders")
    table = embedded.create_table(
        NewTable("sales", "orders", location, columns, parameters={"transactional": "true"}, partition_keys=[day])
    )
    part = embedded.add_partition(table, ("2026-11-01",), f"{location}/day=2026-11-01")
    Path(part.location).mkdir(parents=True)
    entity = Entity(database="sales", table="orders", partition=part.name)
    rows = pa.table(
        {"id": [1, 5], "amount": pa.array([Decimal(7), Decimal(12)], pa.decimal128(10, 2)), "status": ["new", "new"]}
    )
    with transaction(deployment) as txn:
        made = txn.begin_statement(entity, WriteOperation.INSERT)
        write_rows(made.location, table.row_type, rows, write_id=made.write_id, statement_id=made.statement_id)
    monkeypatch.setenv("COMPACTOR_METASTORE_URL", metastore_url)


@pytest.mark.usefixtures("orders")
def test_the_examples_run() -> None:
    with ExitStack() as stack:
        store = stack.enter_context(open_metastore())
        names = {"store": store}
        for example in EXAMPLES:
            exec(compile(example, str(PAGE), "exec"), names)
            names["store"] = store
            names["orders"] = store.load_table("sales.orders")
    assert len(EXAMPLES) >= 3


@pytest.mark.usefixtures("orders")
def test_the_example_of_changes_runs() -> None:
    [example] = re.findall(r"^```python\n(.*?)^```$", CHANGES_PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    names: dict[str, pa.Table] = {}
    exec(compile(example, str(CHANGES_PAGE), "exec"), names)
    assert sorted(names["changes"]["_change_type"].to_pylist()) == ["update_postimage", "update_preimage"]
    assert sorted(names["before"]["status"].to_pylist()) == ["new", "new"]

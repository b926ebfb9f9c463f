from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from click.testing import Result
from compactor.cli.compact import parse_properties

from compactor.base.errors import BadSetting
from compactor.metastore.catalog.embedded import NewTable
from compactor.metastore.catalog.values import Column
from compactor.metastore.metastore import Metastore

Compactor = Callable[..., Result]


@pytest.fixture
def _tables(metastore: Metastore) -> None:
    metastore.embedded_catalog.create_database("default", "/w")
    acid = {"transactional": "true"}
    metastore.embedded_catalog.create_table(
        NewTable("default", "t", "/w/t", [Column(name="a", type="int")], parameters=acid)
    )
    metastore.embedded_catalog.create_table(NewTable("default", "plain", "/w/plain", [Column(name="a", type="int")]))


def test_properties_are_pairs() -> None:
    assert parse_properties((" a.b =1", "c=x=y", "d=")) == {"a.b": "1", "c": "x=y", "d": ""}


@pytest.mark.parametrize("pair", ["nothing", "=1", " =1"])
def test_a_property_without_key_or_value_is_refused(pair: str) -> None:
    with pytest.raises(BadSetting, match="expected K=V"):
        parse_properties((pair,))


@pytest.mark.usefixtures("_tables")
def test_a_request_is_queued_as_given(compactor: Compactor, metastore: Metastore) -> None:
    asked = ("compact", "Default.T", "--type", "MINOR", "--pool", "etl", "--property", "tblprops.orc.compress=ZSTD")
    (output,) = json.loads(compactor(*asked, "--json").stdout)
    (entry,) = metastore.entries.queue()
    assert output["compaction"] == entry.id
    assert (str(entry.entity), entry.type.label, entry.pool) == ("default.t", "MINOR", "etl")
    assert entry.properties["tblprops.orc.compress"] == "ZSTD"


@pytest.mark.usefixtures("_tables")
def test_a_rebalance_with_files_and_order(compactor: Compactor, metastore: Metastore) -> None:
    done = compactor("compact", "default.t", "--type", "rebalance", "--buckets", "4", "--order-by", "a desc")
    assert done.exit_code == 0
    (entry,) = metastore.entries.queue()
    assert (entry.type.label, entry.buckets, entry.order_by) == ("REBALANCE", 4, "order by a desc")
    assert compactor("compact", "default.t", "--type", "rebalance", "--order-by", "a + 1").exit_code == 3
    assert compactor("compact", "default.t", "--type", "rebalance", "--buckets", "0").exit_code == 2
    assert compactor("compact", "default.t", "--buckets", "2").exit_code == 3


@pytest.mark.usefixtures("_tables")
def test_exit_codes_show_the_outcome(compactor: Compactor) -> None:
    assert compactor("compact", "default.plain").exit_code == 3
    assert compactor("compact", "default.nowhere").exit_code == 2
    assert compactor("compact", "default.t", "--property", "x").exit_code == 2
    first = compactor("compact", "default.t", "--wait", "--timeout", "0")
    assert (first.exit_code, first.stdout.startswith("default.t: compaction 1 ")) == (4, True)
    again = compactor("compact", "default.t")
    assert again.exit_code == 3
    assert again.stderr.startswith("compactor: refused: default.t: ")

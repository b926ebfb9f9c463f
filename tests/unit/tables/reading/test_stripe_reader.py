from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from compactor.site.site import Site
from compactor.tables.reading import task_reader
from compactor.tables.store import Store
from tests.support import scanned
from tests.support.filters import Filter, filters
from tests.support.tables import with_settings

ROWS = scanned.rows(2500)
OLDER = [dict(row) for row in scanned.rows(400)]


@pytest.fixture(scope="module")
def made(empty_metastore: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    import shutil

    from compactor.site.deployment import configure, open_site

    folder = tmp_path_factory.mktemp("scanned")
    shutil.copyfile(empty_metastore, folder / "metastore.db")
    url = f"sqlite:///{folder / 'metastore.db'}"
    environment = {"COMPACTOR_METASTORE_URL": url, "COMPACTOR_WAREHOUSE": str(folder)}
    with open_site(configure(environment=environment)) as opened:
        site = with_settings(opened, hive_txn_opentxn_timeout="1ms")
        table = scanned.make(site, folder)
        scanned.insert(site, table, ROWS)
        scanned.insert(site, table, OLDER, blooms=())
        yield Store(site).load_table(str(table))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(one=filters())
def test_a_filter_that_is_pushed_down_shows_what_the_slow_model_shows(made: Any, one: Filter) -> None:
    wanted = [n for n, row in enumerate([*ROWS, *OLDER]) if one.meaning(row) is True]
    found = made.scan(one.text, selected_fields=("i", "s"), row_ids=True).to_arrow()
    ids = [(row["writeid"] - 1) * len(ROWS) + row["rowid"] for row in found["row__id"].to_pylist()]
    assert ids == wanted, one.text
    everything = [*ROWS, *OLDER]
    assert found["i"].to_pylist() == [everything[n]["i"] for n in wanted]
    assert found["s"].to_pylist() == [everything[n]["s"] for n in wanted]
    assert made.scan(one.text).count() == len(wanted)


@pytest.mark.parametrize("few", [1, 10**9])
def test_row_groups_alone_and_whole_stripes_show_the_same(made: Any, few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_reader, "FEW", few)
    found = made.scan("i between 300 and 340 or s = 'key 0017'", row_ids=True, timestamps="parts").to_arrow()
    kept = [
        row for row in [*ROWS, *OLDER] if (row["i"] is not None and 300 <= row["i"] <= 340) or row["s"] == "key 0017"
    ]
    assert found["n"].to_pylist() == [row["n"] for row in kept]
    assert found["d"].to_pylist() == [row["d"] for row in kept]
    assert found["l"].to_pylist() == [row["l"] for row in kept]


def test_a_column_of_the_filter_need_not_be_returned(made: Any) -> None:
    found = made.scan("i = 100", selected_fields=("l",)).to_arrow()
    assert found.schema.names == ["l"]
    assert found.num_rows == len([row for row in [*ROWS, *OLDER] if row["i"] == 100])


def test_no_column_at_all_is_counted(deployment: Site, made: Any) -> None:
    found = made.scan("b", selected_fields=()).to_arrow()
    assert found.num_rows == sum(row["b"] is True for row in [*ROWS, *OLDER])

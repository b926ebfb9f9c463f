from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings

from compactor.base.errors import NotSupported
from compactor.orc.codecs.arrow_types import ArrowType
from compactor.orc.codecs.pyorc_codec import TIMESTAMP
from compactor.orc.format.hive_types import parse_hive_type
from compactor.site.site import Site
from compactor.tables.reading import scan_task_reader
from compactor.tables.reading.stripe_reader import Fit, convert
from compactor.tables.schema import PARTS
from compactor.tables.store import Store
from tests.support import scanned
from tests.support.filters import Filter, filters
from tests.support.tables import with_settings

ROWS = scanned.make_rows(2500)
OLDER = [dict(row) for row in scanned.make_rows(400)]
NANOS, MICROS = pa.timestamp("ns"), pa.timestamp("us")
PAIRS = [{"seconds": -1, "nanos": 500_000_000}, None, {"seconds": 10, "nanos": 123_456_789}]


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
    monkeypatch.setattr(scan_task_reader, "FEW", few)
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


def fit(kind: ArrowType, text: str = "timestamp", *, is_hybrid: bool = False) -> Fit:
    return Fit(types=parse_hive_type(text), column=0, kind=kind, name="t", is_hybrid=is_hybrid)


def test_parts_become_nanoseconds_and_back() -> None:
    found = convert(pa.array(PAIRS, TIMESTAMP), fit(NANOS))
    assert found.cast(pa.int64()).to_pylist() == [-500_000_000, None, 10_123_456_789]
    assert convert(found, fit(PARTS)).to_pylist() == PAIRS
    assert convert(found, fit(NANOS)) is found


def test_microseconds_reach_everywhere_and_cut_digits() -> None:
    parts = pa.array([{"seconds": 253402300799, "nanos": 999_999_999}], TIMESTAMP)
    assert convert(parts, fit(MICROS)).to_pylist() == [datetime(9999, 12, 31, 23, 59, 59, 999999)]
    assert convert(pa.array([-1], pa.int64()).cast(NANOS), fit(MICROS)).cast(pa.int64()).to_pylist() == [-1]


def test_what_does_not_fit_is_named() -> None:
    with pytest.raises(NotSupported, match="column t: the timestamp 9999-12-31 23:59:59 does not fit"):
        convert(pa.array([{"seconds": 253402300799, "nanos": 0}], TIMESTAMP), fit(NANOS))


def test_early_days_of_a_hybrid_file_keep_their_date() -> None:
    parts = pa.array([{"seconds": -141_428 * 86_400, "nanos": 7}], TIMESTAMP)
    assert convert(parts, fit(MICROS, is_hybrid=True)).to_pylist() == [datetime(1582, 10, 4)]
    days = pa.array([-719_164, None], pa.int32()).cast(pa.date32())
    assert str(convert(days, fit(pa.date32(), "date", is_hybrid=True))[0]) == "0001-01-01"
    assert convert(days, fit(pa.date32(), "date")) is days


def test_timestamps_at_any_depth() -> None:
    kind = pa.list_(pa.struct([pa.field("m", pa.map_(pa.string(), TIMESTAMP))]))
    rows = [[{"m": [("k", PAIRS[2])]}], None, [None, {"m": None}], []]
    wanted = pa.list_(pa.struct([pa.field("m", pa.map_(pa.string(), MICROS))]))
    found = convert(pa.array([[], *rows], kind).slice(1), fit(wanted, "array<struct<m:map<string,timestamp>>>"))
    found.validate(full=True)
    assert found.to_pylist()[1:] == [None, [None, {"m": None}], []]
    assert found.to_pylist()[0][0]["m"][0][1] == datetime(1970, 1, 1, 0, 0, 10, 123456)

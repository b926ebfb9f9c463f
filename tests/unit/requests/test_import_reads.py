from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from compactor.base.errors import BadFile, DatabaseUnavailable
from compactor.requests.import_reads import Imported, import_reads
from compactor.site.site import Site, own_state
from tests.support.read_events import plain
from tests.support.tables import make_table


@pytest.fixture
def site(deployment: Site, warehouse: Path) -> Site:
    make_table(deployment, warehouse)
    return deployment


def events(site: Site, *tables: str, age_s: float = 60) -> list[str]:
    now = site.metastore.now_ms() / 1000
    return [json.dumps(plain(n, at=now - age_s, seconds=1, table=table)) for n, table in enumerate(tables)]


def test_reads_of_this_metastores_tables_are_stored_once(site: Site) -> None:
    lines = [*events(site, "default.t", "Default.T", "iceberg.t"), '{"metadata": {}, "context": {}}']
    assert import_reads(site, lines, "f") == Imported(events=4, queries=3, stored=2)
    assert import_reads(site, lines, "f").stored == 0
    (sums,) = own_state(site).reads.sums(site.name, 0)
    assert (sums.database, sums.table, sums.queries) == ("default", "t", 2)


def test_what_is_older_than_is_kept_is_left_out(site: Site) -> None:
    assert import_reads(site, events(site, "default.t", age_s=40 * 86_400), "f") == Imported(events=1)


def test_what_came_before_a_bad_line_is_stored(site: Site) -> None:
    lines = [*events(site, *["default.t"] * 1000), "{"]
    with pytest.raises(BadFile, match="f, line 1001"):
        import_reads(site, lines, "f")
    assert own_state(site).reads.sums(site.name, 0)[0].queries == 1000


def test_without_a_state_there_is_no_place_for_them(site: Site) -> None:
    with pytest.raises(DatabaseUnavailable):
        import_reads(replace(site, state=None), [], "f")

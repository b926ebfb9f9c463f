from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from compactor.batches.assembly import list_claimable_ids
from compactor.batches.driver import run_entries
from compactor.cleaner.blockers import blocking_transactions
from compactor.cleaner.cleaner import clean
from compactor.compaction.states import State
from compactor.initiator.initiator import initiate
from compactor.requests.request import request_compaction
from compactor.rewrite.run.runner import InProcessRunner
from compactor.site.site import Site
from demo import scenes
from demo.demo_folder import DemoPaths
from demo.measure import measure
from demo.report import describe_copy, find_decoded
from demo.tables import DATABASE
from tests.support.patience import until


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DemoPaths:
    monkeypatch.setattr(scenes, "CLICKS_AT_ONCE", 4000)
    monkeypatch.setattr(scenes, "_PAUSE_SECONDS", 0.01)
    place = DemoPaths(folder=tmp_path / "demo")
    place.make()
    return place


@pytest.fixture
def site(place: DemoPaths) -> Iterator[Site]:
    with place.site() as site:
        site.metastore.embedded_catalog.create_database(DATABASE, str(place.warehouse / "demo.db"))
        scenes.load(site)
        yield site


def compact(site: Site) -> None:
    run_entries(site, list_claimable_ids(site), InProcessRunner())


def test_what_only_grows_is_copied_and_a_report_keeps_the_cleaner_waiting(site: Site) -> None:
    initiate(site)
    assert [entry.entity for entry in site.metastore.entries.queue()] == [scenes.CLICKS, scenes.LIVE]
    with scenes.leave_open(site):
        compact(site)
        assert site.state is not None
        [run] = site.state.runs.latest(site.name, 1, entity=scenes.CLICKS)
        assert (run.rows_out, run.stripes_reencoded) == (scenes.INSERTS * 4000, 0)
        assert "0 decoded" in describe_copy(run)
        assert find_decoded(run) == []
        assert clean(site).cleaned == ()
        [blocker] = blocking_transactions(site)
        assert {entry.entity for entry in blocker.entries} == {scenes.CLICKS, scenes.LIVE}
    until("nothing waits for the report", lambda: clean(site) and not site.metastore.entries.queue(), pause=0.2)
    assert {entry.entity for entry in site.metastore.entries.history()} == {scenes.CLICKS, scenes.LIVE}


def test_a_file_that_is_cut_short_fails_until_it_is_put_back(site: Site, place: DemoPaths) -> None:
    before = measure(site, DATABASE, scenes.DAMAGED.table)
    damage = scenes.Damage.truncate(site, place.folder)
    request_compaction(site, table=str(scenes.DAMAGED), type="major")
    compact(site)
    [failed] = site.metastore.entries.history()
    assert (failed.state, str(damage.file) in str(failed.error)) == (State.FAILED, True)
    damage.mend()
    request_compaction(site, table=str(scenes.DAMAGED), type="major")
    compact(site)
    assert measure(site, DATABASE, scenes.DAMAGED.table).checksum == before.checksum


def test_writes_go_on_until_the_block_ends(site: Site, place: DemoPaths) -> None:
    assert scenes.count_written(site) == scenes.INSERTS
    with scenes.keep_writing(place):
        until("two writes", lambda: scenes.count_written(site) >= scenes.INSERTS + 2)
    rows = measure(site, DATABASE, scenes.LIVE.table).rows
    assert rows == scenes.count_written(site) >= scenes.INSERTS + 2

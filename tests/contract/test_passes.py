"""One pass of each role over every metastore that may be acted on: the rows stay, the directories go."""

from __future__ import annotations

from pathlib import Path

from compactor.acid.names import Base, parse_directory
from compactor.batches.assembly import list_claimable_ids
from compactor.batches.driver import run_entries
from compactor.cleaner.cleaner import clean
from compactor.housekeeper.housekeeper import keep_house
from compactor.initiator.initiator import initiate
from compactor.metastore.metastore import Metastore
from compactor.requests.request import request_compaction
from compactor.rewrite.run.runner import InProcessRunner
from compactor.settings.precedence import Settings
from compactor.site.site import Site
from compactor.state.state_database import OwnState
from compactor.storage.local import LocalStorage
from compactor.worker.ending import Result
from tests.support.tables import make_table, rows_of, story, with_settings
from tests.support.watching import names_in


def test_each_role_does_its_part(metastore: Metastore, state: OwnState, tmp_path: Path) -> None:
    """PROTOCOL 5, 7: what is compacted and cleaned reads as before, whatever database remembers it."""
    bare = Site.here("default", metastore, state, LocalStorage(), Settings.of())
    site = with_settings(bare, hive_txn_opentxn_timeout="1ms", hive_compactor_delta_num_threshold="3")
    table = make_table(site, tmp_path)
    story(site, table)
    wanted = rows_of(site, table)
    assert [outcome for outcome in initiate(site).considered if outcome.entry_id is not None]
    for kind in (None, "minor"):
        if kind is not None:
            story(site, table)
            wanted = rows_of(site, table)
            request_compaction(site, table=str(table), type=kind)
        done = run_entries(site, list_claimable_ids(site), InProcessRunner())
        assert [outcome.result for outcome in done.outcomes] == [Result.COMPACTED]
        assert rows_of(site, table) == wanted
        passed = clean(site)
        assert (passed.waiting, passed.failed) == ((), ())
        assert rows_of(site, table) == wanted
    names = [parse_directory(name) for name in names_in(tmp_path / "t")]
    has_visibility = metastore.dialect.layout.has_visibility
    assert all(acid is not None and bool(acid.visibility_txn_id) is has_visibility for acid in names)
    assert [type(acid) for acid in names].count(Base) == 1
    assert keep_house(site).acted
    assert rows_of(site, table) == wanted

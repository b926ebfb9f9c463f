from __future__ import annotations

from collections.abc import Collection

import pytest

from compactor.compaction.queue_entry import Entity, Request
from compactor.compaction.states import CompactionType, State
from compactor.initiator.past_compactions import PastCompactions
from compactor.metastore.queue.entries import Ended
from compactor.site.site import Site

FINE = Entity(database="default", table="t", partition="p=1")
BROKEN = Entity(database="default", table="t", partition="p=2")
NEVER = Entity(database="default", table="u")


def ended(site: Site, entity: Entity, state: State) -> int:
    metastore = site.metastore
    number = metastore.requests.request(Request(entity=entity, type=CompactionType.MAJOR, initiator="compactor-test"))
    claimed = metastore.claims.claim("compactor-test", "test", pool_timeout_ms=0)
    assert claimed is not None
    metastore.claims.finish(claimed, state)
    return number


def test_figures_are_of_all_and_rows_only_of_those_in_trouble(
    deployment: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    metastore = deployment.metastore
    failed = ended(deployment, BROKEN, State.FAILED)
    refused = metastore.requests.did_not_initiate(FINE, "by a test")
    with metastore.database.write() as conn:
        conn.exec_driver_sql(f"UPDATE COMPLETED_COMPACTIONS SET CC_STATE = 's', CC_END = 77 WHERE CC_ID = {refused}")
    past = PastCompactions(deployment)
    assert past.ended(FINE) == Ended(newest=refused, at=77, committed_at=77, others=0)
    assert (past.ended(BROKEN).newest, past.ended(BROKEN).committed_at, past.ended(BROKEN).others) == (failed, None, 1)
    assert past.ended(NEVER) == Ended()
    assert [entry.id for entry in past.entries(BROKEN)] == [failed]
    assert (past.entries(FINE), past.entries(NEVER)) == ((), ())


def test_a_table_is_read_once(deployment: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    past, read = PastCompactions(deployment), []
    original = deployment.metastore.entries.ended

    def of(
        tables: list[tuple[str, str]], partitions: None, *, undone: Collection[int]
    ) -> dict[tuple[str, str], dict[str | None, Ended]]:
        read.append(tables)
        return original(tables, partitions, undone=undone)

    monkeypatch.setattr(deployment.metastore.entries, "ended", of)
    past.expect([("default", "t"), ("default", "u")])
    past.expect([("default", "t")])
    assert (past.ended(NEVER), past.entries(BROKEN)) == (Ended(), ())
    assert read == [[("default", "t"), ("default", "u")]]

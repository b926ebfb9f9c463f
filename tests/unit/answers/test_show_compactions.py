from __future__ import annotations

import pytest

from compactor.answers.show_compactions import (
    CompactionFilter,
    CompactionRow,
    CompactionWords,
    find_filter,
    show_compactions,
    show_history,
)
from compactor.base.errors import BadSetting
from compactor.compaction.queue_entry import Entity, Request
from compactor.compaction.states import CompactionType
from compactor.site.named_tables import Where
from compactor.site.site import VERSION, Site
from demo.fixtures import register_fixture
from tests.support.expected import step

COMPACTIONS = (
    *("compactionid", "dbname", "tabname", "partname", "type", "state", "workerhost", "workerid", "enqueuetime"),
    *("starttime", "duration", "hadoopjobid", "errormessage", "initiatorhost", "initiatorid", "poolname", "txnid"),
    *("nexttxnid", "committime", "highestwriteid"),
)
ENTITY = Entity(database="default", table="t")


def request(site: Site, entity: Entity = ENTITY, pool: str | None = None) -> int:
    return site.metastore.requests.request(
        Request(entity=entity, type=CompactionType.MAJOR, initiator=f"compactor-{site.host}-manual", pool=pool)
    )


def test_keys_are_hives_columns_in_lower_case() -> None:
    assert CompactionRow.columns() == COMPACTIONS


def test_a_queued_compaction(deployment: Site) -> None:
    number = request(deployment, pool="nightly")
    (row,) = show_compactions(deployment)
    shown = row.to_json()
    assert (shown["compactionid"], shown["type"], shown["state"], shown["poolname"]) == (
        number,
        "MAJOR",
        "initiated",
        "nightly",
    )
    assert isinstance(shown["enqueuetime"], int)
    assert shown["enqueuetime"] > 1_600_000_000_000
    assert shown["starttime"] is None
    assert shown["duration"] is None
    assert shown["initiatorhost"] == deployment.host


def test_a_working_one_names_its_workers_host(deployment: Site) -> None:
    request(deployment)
    worker = deployment.identity("worker")
    deployment.metastore.claims.claim(worker, VERSION, pool_timeout_ms=0)
    (row,) = show_compactions(deployment)
    assert (row.state, row.workerid, row.workerhost) == ("working", worker, deployment.host[:64])


def test_hives_own_rows_keep_their_hosts(deployment: Site, warehouse) -> None:  # type: ignore[no-untyped-def]
    register_fixture(deployment.metastore, step("hive-4.1/f1_basic/s9_major_cleaned"), warehouse)
    rows = show_history(deployment, CompactionFilter(where=Where(database="default", table="f1_basic")))
    assert [row.type for row in rows] == ["MAJOR", "MINOR"]
    assert {row.initiatorhost for row in rows} == {"HOST"}
    assert all(row.duration is not None and row.duration > 0 for row in rows)


def test_the_latest_event_comes_first(deployment: Site) -> None:
    first = request(deployment)
    second = request(deployment, Entity(database="default", table="u"))
    assert [row.compactionid for row in show_compactions(deployment)] == [first, second]
    deployment.metastore.claims.abort_request(second)
    assert [(row.compactionid, row.state) for row in show_compactions(deployment)] == [
        (second, "aborted"),
        (first, "initiated"),
    ]


def test_the_history_of_one_table_is_its_own(deployment: Site) -> None:
    for entity in (ENTITY, Entity(database="default", table="t", partition="p=1"), Entity(database="d", table="t")):
        deployment.metastore.claims.abort_request(request(deployment, entity))
    assert len(show_history(deployment)) == 3
    table = CompactionFilter(where=Where(database="default", table="t"))
    assert [row.partname for row in show_history(deployment, table)] == ["p=1", None]
    assert [row.partname for row in show_history(deployment, table, limit=1)] == ["p=1"]
    partition = CompactionFilter(where=Where(database="default", table="t", partition="p=1"))
    assert [row.partname for row in show_history(deployment, partition)] == ["p=1"]


def test_compactions_that_match_a_filter(deployment: Site) -> None:
    """SHOW COMPACTIONS [id | db | table | partition] [POOL] [TYPE] [STATUS] [LIMIT]."""
    first = request(deployment, pool="nightly")
    second = request(deployment, Entity(database="default", table="u", partition="p=1"))
    third = request(deployment, Entity(database="other", table="t"))
    deployment.metastore.claims.abort_request(second)

    def shown(limit: int | None = None, **wanted: object) -> list[int]:
        filter_ = find_filter(deployment, CompactionWords(**wanted))  # type: ignore[arg-type]
        rows = show_compactions(deployment, filter_, limit=limit)
        return sorted(row.compactionid for row in rows)

    assert shown() == [first, second, third]
    assert shown(id=third) == [third]
    assert shown(name="default.*") == [first, second]
    assert shown(name="T") == [first]
    assert shown(name="default.u", partition="p=1") == [second]
    assert shown(pool="nightly") == [first]
    assert shown(pool="default") == [second, third]
    assert shown(type="major", state="INITIATED") == [first, third]
    assert shown(type="minor") == []
    assert shown(state="aborted") == [second]
    assert shown(limit=1) == [second]  # the latest event


def test_compactions_in_an_order(deployment: Site) -> None:
    """ORDER BY of SHOW COMPACTIONS: by the first column, then the next; unset values come last either way."""
    first = request(deployment, Entity(database="default", table="b"))
    second = request(deployment, Entity(database="default", table="a"))
    third = request(deployment, Entity(database="a", table="b"))
    deployment.metastore.claims.abort_request(second)

    def shown(order: str) -> list[int]:
        return [row.compactionid for row in show_compactions(deployment, order=order)]

    assert shown("compactionid desc") == [third, second, first]
    assert shown("tabname, dbname ASC") == [second, third, first]
    assert shown(" TABNAME desc ,compactionid") == [first, third, second]
    assert shown("errormessage, compactionid") == shown("errormessage desc, compactionid") == [second, first, third]
    assert show_compactions(deployment, order="compactionid", limit=1)[0].compactionid == first
    for wrong in ("when", "tabname down", "tabname; DROP TABLE x"):
        with pytest.raises(BadSetting, match="expected a column and asc or desc"):
            shown(wrong)

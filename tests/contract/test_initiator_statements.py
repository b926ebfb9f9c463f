"""A pass of the initiator costs a fixed number of statements, however many tables and partitions there are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest
from sqlalchemy import event

from compactor.base.errors import Refused
from compactor.batches.assembly import list_claimable_ids
from compactor.compaction.queue_entry import Entity, Request
from compactor.compaction.states import CompactionType
from compactor.initiator.initiator import InitiatorPass, initiate
from compactor.metastore.metastore import Metastore
from compactor.requests.request import request_compaction
from compactor.site.site import Site
from tests.support.many import make_partitions, site_of

pytestmark = pytest.mark.usefixtures("hive4")

FEW, MANY, TABLES = 30, 300, 40
T = TypeVar("T")


@pytest.mark.parametrize(("threshold", "outcome"), [("1", "major"), ("2", "notneeded")])
def test_statements_do_not_grow_with_tables_or_partitions(
    metastore: Metastore, tmp_path: Path, threshold: str, outcome: str
) -> None:
    site = site_of(metastore, hive_compactor_delta_num_threshold=threshold)
    make_partitions(metastore, tmp_path, FEW, deltas=2, name="first")
    make_partitions(metastore, tmp_path, 1, deltas=2, name="first_single")
    first, done = counted(site)
    assert {c.outcome for c in done.considered} == {outcome}
    make_partitions(metastore, tmp_path, MANY, deltas=2, name="many")
    for number in range(TABLES):
        make_partitions(metastore, tmp_path, 1, deltas=2, name=f"t{number}")
    all_of_them, done = counted(site)
    assert [c.outcome for c in done.considered if not c.entity.table.startswith("first")] == [outcome] * (MANY + TABLES)
    assert len(done.enqueued) == (MANY + TABLES if outcome == "major" else 0)
    assert all_of_them <= first
    again, done = counted(site)
    assert {c.outcome for c in done.considered} == {"skipped" if outcome == "major" else outcome}
    assert again <= first


def counted(site: Site) -> tuple[int, InitiatorPass]:
    """Returns the number of statements that a pass sends."""
    return sent(site, lambda: initiate(site))


def sent(site: Site, work: Callable[[], T]) -> tuple[int, T]:
    """Returns the number of statements that ``work`` sends, and its result."""
    statements: list[str] = []

    def seen(conn: object, cursor: object, statement: str, *others: object) -> None:
        statements.append(statement)

    event.listen(site.metastore.database.engine, "before_cursor_execute", seen)
    try:
        done = work()
    finally:
        event.remove(site.metastore.database.engine, "before_cursor_execute", seen)
    return len(statements), done


def test_of_many_requests_each_is_taken_or_refused_by_itself(metastore: Metastore) -> None:
    """DESIGN 8.3: at most one request is initiated or working for each entity, also within one asking."""
    old = metastore.requests.request(_request("p=1"))
    whole = metastore.requests.request(_request(None))
    answers = metastore.requests.request_all([_request(p) for p in ("p=2", "p=1", "p=2", None, "p=3", "P=3")])
    taken = [answer for answer in answers if not isinstance(answer, Refused)]
    assert [isinstance(answer, Refused) for answer in answers] == [False, True, True, True, False, False]
    assert taken == [whole + 1, whole + 2, whole + 3]
    assert str(answers[1]) == f"Compaction is already scheduled with state='initiated' and id={old}"
    assert str(answers[2]) == f"Compaction is already scheduled with state='initiated' and id={whole + 1}"
    assert str(answers[3]) == f"Compaction is already scheduled with state='initiated' and id={whole}"
    assert [e.entity.partition for e in metastore.entries.queue()] == ["p=1", None, "p=2", "p=3", "P=3"]
    assert metastore.requests.request(_request("p=4")) == whole + 4
    assert metastore.requests.request_all([]) == []


def test_a_request_that_is_refused_draws_no_id(metastore: Metastore) -> None:
    first = metastore.requests.request(_request("p=1"))
    assert isinstance(metastore.requests.request_all([_request("p=1")])[0], Refused)
    assert metastore.requests.request(_request("p=2")) == first + 1


def test_both_forms_of_an_escaped_name_are_one_partition(metastore: Metastore) -> None:
    """PROTOCOL 9: Hive records a static partition's name escaped twice."""
    answers = metastore.requests.request_all([_request("p=a%3Ab"), _request("p=a%253Ab")])
    assert [isinstance(answer, Refused) for answer in answers] == [False, True]


def _request(partition: str | None) -> Request:
    entity = Entity(database="default", table="t", partition=partition)
    return Request(entity=entity, type=CompactionType.MINOR, initiator="compactor-test")


def test_a_whole_table_is_asked_for_and_found_waiting_in_as_many_statements(
    metastore: Metastore, tmp_path: Path
) -> None:
    site = site_of(metastore)
    for name, count in (("first", 1), ("few", FEW), ("many", MANY)):
        make_partitions(metastore, tmp_path, count, deltas=1, name=name)
    first = request_compaction(site, table="default.first")  # makes the mutex's row, once for all
    for enqueued in first:
        metastore.claims.abort_request(enqueued.entry_id)
    few, asked = sent(site, lambda: request_compaction(site, table="default.few"))
    assert len(asked) == FEW
    found_few, waiting = sent(site, lambda: list_claimable_ids(site))
    assert waiting == [enqueued.entry_id for enqueued in asked]
    many, asked = sent(site, lambda: request_compaction(site, table="default.many"))
    assert (len(asked), many) == (MANY, few)
    found_both, waiting = sent(site, lambda: list_claimable_ids(site))
    assert len(waiting) == FEW + MANY
    assert found_both <= 2 * found_few

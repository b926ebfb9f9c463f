from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from airflow.sdk import DAG
from airflow.sdk._shared.module_loading import import_string
from airflow.serialization.serialized_objects import DagSerialization

from compactor.airflow import commits, tasks
from compactor.airflow.commits import CommitTrigger, watched
from compactor.base.errors import DatabaseUnavailable
from tests.support.patience import PATIENCE


class Store:
    """The values that Airflow keeps with an asset."""

    def __init__(self, kept: Any = None) -> None:
        self.kept = kept

    async def aget(self, key: str) -> Any:
        return self.kept

    async def aset(self, key: str, value: Any) -> None:
        self.kept = value


def looks(monkeypatch: pytest.MonkeyPatch, *answers: Any) -> list[Any]:
    """Lets ``tasks.commits`` answer so, and returns what had been seen each time."""
    remaining, asked = iter(answers), []

    def look(metastore: str, table: str, seen: Any) -> Any:
        asked.append(seen)
        answer = next(remaining)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(tasks, "read_commits", look)
    return asked


def events(trigger: CommitTrigger, count: int) -> list[Any]:
    async def run() -> list[Any]:
        found: AsyncIterator[Any] = trigger.run()
        return [(await anext(found)).payload for _ in range(count)]

    return asyncio.run(asyncio.wait_for(run(), PATIENCE))


def test_it_goes_on_from_what_was_seen_and_keeps_it(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = looks(monkeypatch, ("b", None), ("c", {"commits": 2}), ("c", None), ("d", {"commits": 1}))
    trigger, store = CommitTrigger(table="a.t", poll_seconds=0.001), Store("a")
    trigger.asset_state_store = store  # type: ignore[assignment]
    assert events(trigger, 2) == [{"commits": 2}, {"commits": 1}]
    assert asked == ["a", "b", "c", "c"]
    assert store.kept == "c"  # the second event is not taken yet: it would come again


def test_a_metastore_that_is_away_is_asked_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(commits, "TROUBLE_PAUSE", 0.001)
    asked = looks(monkeypatch, ("a", None), DatabaseUnavailable("down"), ("b", {"commits": 1}))
    assert events(CommitTrigger(table="a.t", poll_seconds=0.001), 1) == [{"commits": 1}]
    assert (asked, "down" in caplog.text) == ([None, "a", "a"], True)


def test_an_asset_is_watched_for_commits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__COMPACTOR__POLL_SECONDS", "7")
    asset = watched("Shop.Orders", metastore="archive")
    with DAG("d", schedule=[asset]) as dag:
        pass
    assert asset.uri == "hive://archive/shop/orders/-/committed"
    [watcher] = asset.watchers
    path, arguments = watcher.trigger.serialize()
    assert arguments == {"table": "Shop.Orders", "metastore": "archive", "poll_seconds": 7.0}
    assert import_string(path)(**arguments).serialize() == (path, arguments)
    assert DagSerialization.to_dict(dag)

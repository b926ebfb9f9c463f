from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from compactor.airflow import tasks
from compactor.airflow.mirror_table import MirrorTableOperator, mirrored
from compactor.mirror.mirrored_tables import NewMirror, add_mirror
from compactor.site.deployment import configure, open_site
from compactor.site.site import Site
from tests.support.tables import insert, make_table


class OutletEvents:
    """The outlet events of a task."""

    def __init__(self) -> None:
        self.added: list[tuple[str, dict[str, Any]]] = []

    def __getitem__(self, alias: Any) -> OutletEvents:
        return self

    def add(self, asset: Any, extra: dict[str, Any]) -> None:
        self.added.append((asset.uri, extra))


@pytest.fixture
def lake(
    deployment: Site, warehouse: Path, tmp_path: Path, metastore_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Table ``default.t`` with three rows and a mirror, in a configuration that tasks find."""
    insert(deployment, make_table(deployment, warehouse), range(3))
    (tmp_path / "lake").mkdir()
    (tmp_path / "lake.toml").write_text(
        f'[catalog.lake]\ntype = "sql"\nuri = "sqlite:///{tmp_path}/lake/c.db"\nwarehouse = "file://{tmp_path}/lake"\n'
    )
    monkeypatch.setenv("COMPACTOR_METASTORE_URL", metastore_url)
    monkeypatch.setenv("COMPACTOR_CONFIG", str(tmp_path / "lake.toml"))
    with open_site(configure()) as site:
        add_mirror(site, NewMirror(table="default.t", catalog="lake", identifier="ice.t"))


@pytest.mark.parametrize("table", [None, "default.t"])
def test_a_pass_reports_its_commit(lake: None, table: str | None) -> None:
    events = OutletEvents()
    operator = MirrorTableOperator(task_id="mirror", table=table)
    (done,) = operator.execute({"outlet_events": events})  # type: ignore[typeddict-item]
    assert (done["rows"], done["error"]) == (3, None)
    extra = {"table": "default.t", "snapshot": done["snapshot"], "rows": 3, "deleted": 0}
    assert events.added == [("iceberg://lake/ice/t", extra)] == [(mirrored("lake", "ice.t").uri, extra)]
    (done,) = operator.execute({"outlet_events": events})  # type: ignore[typeddict-item]
    assert done["snapshot"] is None
    assert len(events.added) == 1


def test_a_table_without_a_mirror_fails_without_a_further_try(lake: None) -> None:
    with pytest.raises(AirflowFailException, match=r"default\.u: has no mirror"):
        MirrorTableOperator(task_id="mirror", table="default.u").execute({"outlet_events": OutletEvents()})  # type: ignore[typeddict-item]


@pytest.mark.parametrize(("needs_person", "error"), [(True, AirflowFailException), (False, AirflowException)])
def test_only_what_a_person_must_decide_ends_the_tries(
    monkeypatch: pytest.MonkeyPatch, needs_person: bool, error: type[Exception]
) -> None:
    done = {"table": "a.t", "snapshot": None, "error": "a.t: it is so", "needs_person": needs_person}
    monkeypatch.setattr(tasks, "run_mirrors_once", lambda metastore, tables: [done])
    with pytest.raises(AirflowException, match=r"a\.t: it is so") as raised:
        MirrorTableOperator(task_id="mirror").execute({"outlet_events": OutletEvents()})  # type: ignore[typeddict-item]
    assert type(raised.value) is error

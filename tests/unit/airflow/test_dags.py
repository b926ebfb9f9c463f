from __future__ import annotations

import runpy
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG
from airflow.sdk.definitions.timetables.assets import AssetOrTimeSchedule
from airflow.serialization.serialized_objects import DagSerialization

from compactor.airflow.assets import compacted, requested
from compactor.airflow.dags import compaction_dags
from compactor.airflow.form import fields
from compactor.base.errors import BadSetting

FILE = Path(__file__).parents[3] / "dags" / "compaction.py"
NAMES = ["compaction_initiator", "compaction_worker", "compaction_cleaner", "acid_housekeeper", "compact_table"]
#: What touches the world, as Python's audit hooks name it.
TOUCHING = ("open", "sqlite3.connect", "socket.connect", "socket.getaddrinfo", "subprocess.Popen", "os.listdir")


class _Watch:
    """An audit hook, which can never be removed, so there is one that only listens while switched on."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, Any]] | None = None
        sys.addaudithook(self._hook)

    def _hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.seen is not None and event in TOUCHING:
            self.seen.append((event, arguments[0] if arguments else None))

    @contextmanager
    def listening(self) -> Iterator[list[tuple[str, Any]]]:
        self.seen = found = []
        try:
            yield found
        finally:
            self.seen = None


@pytest.fixture(scope="module")
def watch() -> _Watch:
    return _Watch()


@pytest.fixture(scope="module")
def dags() -> dict[str, DAG]:
    return {dag.dag_id: dag for dag in compaction_dags("default")}


def test_a_metastore_has_five_dags(dags: dict[str, DAG]) -> None:
    assert list(dags) == NAMES


def test_another_metastore_has_its_name_behind_each() -> None:
    assert [dag.dag_id for dag in compaction_dags("archive")] == [f"{name}__archive" for name in NAMES]


def test_the_dag_file_makes_five_dags_for_each_configured_metastore(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__COMPACTOR__METASTORES", "default,archive")
    found = {value.dag_id for value in runpy.run_path(str(FILE)).values() if isinstance(value, DAG)}
    assert found == {*NAMES, *(f"{name}__archive" for name in NAMES)}


def test_parsing_touches_neither_file_nor_database_nor_network(watch: _Watch) -> None:
    runpy.run_path(str(FILE))  # whatever Airflow itself reads once is read now
    with watch.listening() as seen:
        found = runpy.run_path(str(FILE))
    assert "compaction_worker" in found
    assert [touch for touch in seen if touch != ("open", str(FILE))] == []


def test_the_watch_would_notice(watch: _Watch, tmp_path: Path) -> None:
    with watch.listening() as seen:
        (tmp_path / "x").write_text("x", "utf-8")
    assert ("open", str(tmp_path / "x")) in seen


def test_parsing_imports_nothing_heavy_of_ours() -> None:
    """The factory's modules are imported in every parse; services, stores and readers only when a task runs."""
    import subprocess

    code = (
        "import sys, compactor.airflow.dags\n"
        "heavy = ('compactor.site', 'compactor.worker', 'compactor.metastore', 'pyarrow', 'pyspark', 'pyorc')\n"
        "print([m for m in sys.modules if m.startswith(heavy)])"
    )
    out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=FILE.parents[1])
    assert out.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("name", NAMES)
def test_each_survives_serialisation(dags: dict[str, DAG], name: str) -> None:
    found = DagSerialization.from_dict(DagSerialization.to_dict(dags[name]))
    assert sorted(found.task_dict) == sorted(dags[name].task_dict)


def test_the_initiator_runs_without_a_pause_and_one_at_a_time(dags: dict[str, DAG]) -> None:
    dag = dags["compaction_initiator"]
    assert dag.schedule == "@continuous"
    assert dag.max_active_runs == 1


def test_events_link_initiator_worker_and_cleaner(dags: dict[str, DAG]) -> None:
    for name, asset in (("compaction_worker", requested("default")), ("compaction_cleaner", compacted("default"))):
        schedule = dags[name].schedule
        assert isinstance(schedule, AssetOrTimeSchedule)
        assert [one.uri for one in schedule.asset_condition.objects] == [asset.uri]
    assert requested("archive").uri == "hive://archive/-/requested"
    assert compacted("archive").uri == "hive://archive/-/compacted"


@pytest.mark.parametrize(
    ("dag", "task", "asset"),
    [
        ("compaction_initiator", "initiate", requested("default")),
        ("compact_table", "request", requested("default")),
        ("compaction_worker", "announce", compacted("default")),
    ],
)
def test_an_event_comes_through_an_alias_so_none_without_work(
    dags: dict[str, DAG], dag: str, task: str, asset: Any
) -> None:
    outlets = dags[dag].get_task(task).outlets
    assert {type(outlet).__name__ for outlet in outlets} == {"AssetAlias"}
    assert asset.name in outlets[0].name


def test_batches_wait_in_the_configured_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__COMPACTOR__POOL", "compaction")
    worker = compaction_dags("default")[1]
    assert worker.get_task("compact").partial_kwargs["pool"] == "compaction"
    assert worker.get_task("compact").partial_kwargs["retries"] == 2


def test_runs_of_the_worker_that_wait_do_not_block_planning(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also in an Airflow that allows one run of a DAG at a time."""
    monkeypatch.setenv("AIRFLOW__CORE__MAX_ACTIVE_RUNS_PER_DAG", "1")
    assert [dag.max_active_runs for dag in compaction_dags("default")] == [1, 100, 1, 1, 1]


def test_every_task_is_tried_again(dags: dict[str, DAG]) -> None:
    """Its worker, its trigger or Airflow's API server may be lost."""
    assert [task.task_id for dag in dags.values() for task in dag.tasks if task.retries < 2] == []


def test_tables_have_events_unless_they_are_switched_off(dags: dict[str, DAG], monkeypatch: pytest.MonkeyPatch) -> None:
    (alias,) = dags["compaction_worker"].get_task("compact").partial_kwargs["outlets"]
    assert alias.name == "hive://default/?"
    monkeypatch.setenv("AIRFLOW__COMPACTOR__TABLE_ASSETS", "False")
    assert list(compaction_dags("archive")[1].get_task("compact").partial_kwargs["outlets"]) == []
    monkeypatch.setenv("AIRFLOW__COMPACTOR__TABLE_ASSETS", "perhaps")
    with pytest.raises(BadSetting, match="table_assets"):
        compaction_dags("archive")


def test_the_announcement_is_a_teardown_so_a_failed_batch_fails_the_run(dags: dict[str, DAG]) -> None:
    announce = dags["compaction_worker"].get_task("announce")
    assert announce.is_teardown
    assert not announce.on_failure_fail_dagrun
    assert announce.upstream_task_ids == {"compact"}


def test_the_form_of_compact_table(dags: dict[str, DAG]) -> None:
    assert list(dags["compact_table"].params) == list(fields())
    assert set(dags["compact_table"].task_ids) == {"plan", "not_only_a_dry_run", "request", "done"}


def test_a_person_must_approve_above_the_configured_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__COMPACTOR__APPROVAL_BYTES", "1TB")
    dag = compaction_dags("default")[4]
    assert dag.get_task("approve").upstream_task_ids == {"is_large"}
    assert dag.get_task("request").upstream_task_ids == {"approve", "is_large", "plan"}


def test_a_compaction_pool_may_have_an_airflow_pool_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__COMPACTOR__AIRFLOW_POOLS", "night=compaction_night, etl=etl")
    worker = compaction_dags("default")[1]
    pools = {
        name: worker.get_task(name).partial_kwargs["pool"] for name in ("compact", "compact__night", "compact__etl")
    }
    assert pools == {"compact": "default_pool", "compact__night": "compaction_night", "compact__etl": "etl"}
    assert worker.get_task("announce").upstream_task_ids == set(pools)
    batches = [{"pool_name": name} for name in ("night", None, "other", "etl")]
    of_pool = worker.get_task("of_pool").python_callable
    assert of_pool(batches, "night", []) == [{"pool_name": "night"}]
    assert of_pool(batches, None, ["night", "etl"]) == [{"pool_name": None}, {"pool_name": "other"}]

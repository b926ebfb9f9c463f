"""Each DAG in process, on a metastore with a table that a real Hive wrote."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from compactor.acid.names import parse_directory
from compactor.airflow.assets import compacted, create_asset, requested
from compactor.airflow.sensors import marker_variable
from compactor.compaction.states import State
from demo.demo_folder import DemoPaths
from demo.fixtures import LocationForm, register_fixture
from demo.measure import measure
from tests.support.patience import until

pytestmark = pytest.mark.whole

ROOT = Path(__file__).resolve().parents[3]
FIXTURES = ROOT / "tests" / "fixtures"
TABLE = "f3_abort"
TABLE_ASSET = create_asset(database="default", table=TABLE)
Run = Callable[..., Any]


@pytest.fixture
def table(place: DemoPaths) -> DemoPaths:
    """``default.f3_abort`` of Hive 3.1, with aborted writes between committed ones, due for compaction."""
    due(place)
    return place


def due(place: DemoPaths) -> None:
    with place.site() as site:
        register_fixture(
            site.metastore,
            FIXTURES / "hive-3.1" / TABLE / "s1_aborts",
            place.warehouse,
            location_form=LocationForm.THREE_SLASHES,
        )
        found = site.metastore.catalog.table("default", TABLE)
        site.metastore.embedded_catalog.set_table_parameter(
            found, "compactorthreshold.hive.compactor.delta.num.threshold", "1"
        )


def states(place: DemoPaths) -> list[State]:
    with place.site() as site:
        entries = site.metastore.entries
        return [entry.state for entry in (*entries.queue(), *entries.history())]


def task_states(run: Any) -> dict[str, str | None]:
    return {f"{ti.task_id}{'' if ti.map_index < 0 else ti.map_index}": ti.state for ti in run.get_task_instances()}


@pytest.fixture
def events(airflow_database: Path) -> Callable[[str], int]:
    """Counts the asset events of a URI since the test began."""
    from airflow.models.asset import AssetEvent, AssetModel
    from airflow.utils.session import create_session
    from sqlalchemy import func, select

    def count(uri: str) -> int:
        with create_session() as session:
            query = select(func.count(AssetEvent.id)).join(AssetModel, AssetModel.id == AssetEvent.asset_id)
            return int(session.scalar(query.where(AssetModel.uri == uri)) or 0)

    watched = [asset(name) for name in ("default", "archive") for asset in (requested, compacted)]
    before = {asset.uri: count(asset.uri) for asset in (*watched, TABLE_ASSET)}
    return lambda uri: count(uri) - before[uri]


def variable(key: str) -> str | None:
    from airflow.models.variable import Variable
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        found = session.scalar(select(Variable).where(Variable.key == key))
        return None if found is None else str(found.val)


@pytest.mark.smoke
def test_the_folder_has_no_import_error(airflow_database: Path) -> None:
    from airflow.dag_processing.dagbag import DagBag

    bag = DagBag(dag_folder=str(ROOT / "dags"), bundle_path=ROOT / "dags", bundle_name="dags-folder")
    assert bag.import_errors == {}
    assert len(bag.dags) == 5


@pytest.fixture
def archive(place: DemoPaths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DemoPaths:
    """A second metastore, ``archive``, in the same compactor.toml as the first."""
    made = DemoPaths(folder=tmp_path / "archive")
    made.make()
    of_both = made.config.read_text("utf-8").replace("metastore.default", "metastore.archive")
    place.config.write_text(place.config.read_text("utf-8") + of_both, "utf-8")
    monkeypatch.setenv("AIRFLOW__COMPACTOR__METASTORES", "default,archive")
    return made


def test_as_a_bundle_of_dags_it_has_a_set_for_each_metastore(
    airflow_database: Path, archive: DemoPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow.dag_processing.bundles.manager import DagBundlesManager
    from airflow.dag_processing.dagbag import DagBag

    local = "airflow.dag_processing.bundles.local.LocalDagBundle"
    configured = [{"name": "compactor", "classpath": local, "kwargs": {"path": str(ROOT / "dags")}}]
    monkeypatch.setenv("AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST", json.dumps(configured))
    bundle = DagBundlesManager().get_bundle("compactor")
    bag = DagBag(dag_folder=str(bundle.path), bundle_path=bundle.path, bundle_name=bundle.name)
    assert bag.import_errors == {}
    assert {dag.dag_id.partition("__")[2] for dag in bag.dags.values()} == {"", "archive"}
    assert len(bag.dags) == 10


def test_the_dags_of_a_metastore_work_on_that_alone(
    table: DemoPaths, archive: DemoPaths, run_dag: Run, events: Callable[[str], int]
) -> None:
    due(archive)
    assert run_dag("compaction_initiator__archive").state == "success"
    assert (states(archive), states(table)) == ([State.INITIATED], [])
    assert (events(requested("archive").uri), events(requested("default").uri)) == (1, 0)
    assert run_dag("compact_table", table=f"default.{TABLE}", type="minor", wait=False).state == "success"
    assert (states(archive), states(table)) == ([State.INITIATED], [State.INITIATED])


@pytest.mark.smoke
def test_the_plugin_is_loaded(airflow_database: Path) -> None:
    """A plugin with one bad field vanishes without an error, so its absence must be looked for."""
    from airflow.plugins_manager import get_plugin_info

    assert [plugin for plugin in get_plugin_info() if plugin["name"] == "compactor"]


def test_the_initiator_queues_what_is_due_and_notifies_the_worker(
    table: DemoPaths, run_dag: Run, events: Callable[[str], int]
) -> None:
    run = run_dag("compaction_initiator")
    assert run.state == "success", task_states(run)
    assert states(table) == [State.INITIATED]
    assert events(requested("default").uri) == 1
    assert events(compacted("default").uri) == 0
    first = variable(marker_variable("default"))
    assert first
    run_dag("compaction_initiator")
    assert states(table) == [State.INITIATED]
    assert variable(marker_variable("default")) not in (None, first)


def test_without_work_there_is_no_event(place: DemoPaths, run_dag: Run, events: Callable[[str], int]) -> None:
    assert run_dag("compaction_initiator").state == "success"
    worker = run_dag("compaction_worker")
    assert worker.state == "success"
    assert task_states(worker) == {"plan": "success", "compact": "skipped", "announce": "success"}
    assert events(requested("default").uri) == 0
    assert events(compacted("default").uri) == 0


@pytest.mark.smoke
def test_from_the_form_to_the_clean_directory(
    table: DemoPaths, run_dag: Run, events: Callable[[str], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """compact_table, worker with a real Spark, cleaner and housekeeper, one after the other."""
    monkeypatch.setenv("AIRFLOW__COMPACTOR__TABLE_ASSETS", "True")
    with table.site() as site:
        before = measure(site, "default", TABLE)
    asked = run_dag("compact_table", table=f"default.{TABLE}", type="major", wait=False)
    assert asked.state == "success", task_states(asked)
    done = {"plan": "success", "not_only_a_dry_run": "success", "request": "success", "done": "skipped"}
    assert task_states(asked) == done
    assert events(requested("default").uri) == 1

    worker = run_dag("compaction_worker")
    assert worker.state == "success", task_states(worker)
    assert states(table) == [State.READY_FOR_CLEANING]
    assert events(compacted("default").uri) == 1
    assert events(TABLE_ASSET.uri) == 1

    with table.site() as site:
        wait_until_nobody_holds(site)
    assert run_dag("compaction_cleaner").state == "success"
    assert states(table) == [State.SUCCEEDED]
    assert run_dag("acid_housekeeper").state == "success"

    with table.site() as site:
        after = measure(site, "default", TABLE)
    assert (after.rows, after.checksum) == (before.rows, before.checksum)
    (left,) = (p.name for p in (table.warehouse / TABLE).iterdir() if parse_directory(p.name) is not None)
    assert left.startswith("base_")


def wait_until_nobody_holds(site: Any) -> None:
    """PROTOCOL 7.1: nothing is cleaned within a second of its commit, for an id might still be on its way."""
    (entry,) = site.metastore.entries.queue()
    until("nobody holds it", lambda: site.metastore.transactions.lowest_open() > entry.next_txn_id)


def test_waiting_sees_a_request_that_ended(table: DemoPaths, run_dag: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """``wait`` with a request that somebody takes off the queue meanwhile: the task says so and fails."""
    from compactor.airflow import tasks

    asked_for = tasks.request

    def ask_and_abort(metastore: str, tables: Any, arguments: Any) -> list[int]:
        ids = asked_for(metastore, tables, arguments)
        with table.site() as site:
            site.metastore.claims.abort_request(ids[0])
        return ids

    monkeypatch.setattr(tasks, "request", ask_and_abort)
    run = run_dag("compact_table", table=f"default.{TABLE}", type="major", wait=True)
    assert run.state == "failed"
    assert task_states(run)["done"] == "failed"


@pytest.mark.parametrize(
    ("conf", "message"),
    [
        ({"table": "f3_abort"}, r"expected: DATABASE\.TABLE"),
        ({"table": "default.nowhere"}, "nowhere"),
        ({"table": "default.f3_abort", "partition": "p=1"}, "partition"),
        ({"table": "default.f3_abort", "properties": {"compactor.spark.jars": "evil.jar"}}, r"spark\.jars"),
    ],
)
def test_a_bad_request_fails_with_our_message_and_queues_nothing(
    table: DemoPaths, run_dag: Run, conf: dict[str, Any], message: str
) -> None:
    from airflow.sdk.exceptions import AirflowFailException

    from compactor.airflow import tasks
    from compactor.airflow.form import fields, parse_form
    from compactor.airflow.task_ends import fail_without_retry

    run = run_dag("compact_table", **conf)
    assert run.state == "failed"
    assert "failed" in (task_states(run)["plan"], task_states(run)["request"])
    assert states(table) == []
    form = {name: field.value for name, field in fields().items()}

    def ask() -> None:
        with fail_without_retry():
            asked_for = parse_form(form | conf)
            tasks.request("default", tasks.list_tables("default", asked_for.tables), asked_for.arguments)

    with pytest.raises(AirflowFailException, match=message):
        ask()


def test_a_dry_run_says_what_it_would_do_and_queues_nothing(table: DemoPaths, run_dag: Run) -> None:
    run = run_dag("compact_table", table="default.f3_*", dry_run=True)
    assert run.state == "success"
    assert task_states(run) == {
        "plan": "success",
        "not_only_a_dry_run": "success",
        "request": "skipped",
        "done": "skipped",
    }
    assert states(table) == []


def test_a_type_that_is_none_is_refused_before_anything_runs(table: DemoPaths, run_dag: Run) -> None:
    from airflow.sdk.exceptions import ParamValidationError

    with pytest.raises(ParamValidationError, match="medium"):
        run_dag("compact_table", table="default.f3_abort", type="medium")


def test_a_failed_batch_fails_the_run_though_the_rest_is_announced(
    table: DemoPaths, run_dag: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__COMPACTOR__SPARK_BINARY", "/bin/false")
    assert run_dag("compaction_initiator").state == "success"
    run = run_dag("compaction_worker")
    assert run.state == "failed"
    assert task_states(run) == {"plan": "success", "compact0": "failed", "announce": "success"}
    assert states(table) == [State.INITIATED]

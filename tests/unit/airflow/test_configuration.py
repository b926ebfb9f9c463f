from __future__ import annotations

import pytest

from compactor.airflow import configuration
from compactor.airflow.configuration import below_airflow, boolean, dag_id, metastore_names, seconds, text
from compactor.airflow.options import OPTIONS
from compactor.base.errors import BadSetting


def test_without_configuration_there_is_one_metastore() -> None:
    assert metastore_names() == ("default",)


def test_metastores_are_separated_by_commas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__COMPACTOR__METASTORES", " default, archive ,")
    assert metastore_names() == ("default", "archive")


@pytest.mark.parametrize("names", ["a b", "x/y", "{{ 1 }}"])
def test_a_name_that_cannot_be_part_of_a_dag_id_is_refused_by_name(monkeypatch: pytest.MonkeyPatch, names: str) -> None:
    monkeypatch.setenv("AIRFLOW__COMPACTOR__METASTORES", f"default,{names}")
    with pytest.raises(BadSetting, match="expected: letters") as error:
        metastore_names()
    assert repr(names) in str(error.value)


@pytest.mark.parametrize("names", ["a,a", ","])
def test_no_name_and_a_name_twice_are_refused(monkeypatch: pytest.MonkeyPatch, names: str) -> None:
    monkeypatch.setenv("AIRFLOW__COMPACTOR__METASTORES", names)
    with pytest.raises(BadSetting, match="each only once"):
        metastore_names()


def test_the_environment_wins_over_our_default(monkeypatch: pytest.MonkeyPatch) -> None:
    assert text("pool") == OPTIONS["pool"].default
    monkeypatch.setenv("AIRFLOW__COMPACTOR__POOL", "compaction")
    assert text("pool") == "compaction"


def test_an_address_is_below_airflows_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://etl.example/airflow/")
    assert below_airflow("/compactor/") == "/airflow/compactor/"
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "http://localhost:8080")
    assert below_airflow("/compactor/") == "/compactor/"


@pytest.mark.parametrize("value", ["0", "-1", "soon", "nan", "inf"])
def test_seconds_are_above_zero(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("AIRFLOW__COMPACTOR__POLL_SECONDS", value)
    with pytest.raises(BadSetting, match="poll_seconds"):
        seconds("poll_seconds")


@pytest.mark.parametrize("key", [key for key in OPTIONS if key.endswith(("seconds", "interval"))])
def test_every_duration_has_a_usable_default(key: str) -> None:
    assert seconds(key) > 0


def test_the_dags_of_each_metastore_have_ids_of_their_own() -> None:
    assert dag_id("compaction_worker", "default") == "compaction_worker"
    assert dag_id("compaction_worker", "archive") == "compaction_worker__archive"


def test_airflow_pools_of_compaction_pools(monkeypatch: pytest.MonkeyPatch) -> None:
    assert configuration.airflow_pools() == {}
    monkeypatch.setenv("AIRFLOW__COMPACTOR__AIRFLOW_POOLS", " night = compaction_night,etl=e ")
    assert configuration.airflow_pools() == {"night": "compaction_night", "etl": "e"}
    for wrong in ("night", "night=", "a b=c", "a=b,a=c"):
        monkeypatch.setenv("AIRFLOW__COMPACTOR__AIRFLOW_POOLS", wrong)
        with pytest.raises(BadSetting, match="expected: COMPACTION POOL=AIRFLOW POOL"):
            configuration.airflow_pools()


def test_the_pools_that_the_worker_is_limited_to(monkeypatch: pytest.MonkeyPatch) -> None:
    assert configuration.only_pools() is None
    monkeypatch.setenv("AIRFLOW__COMPACTOR__ONLY_POOLS", " pilot, default,")
    assert configuration.only_pools() == {"pilot", "default"}


def test_the_size_above_which_a_person_must_approve(monkeypatch: pytest.MonkeyPatch) -> None:
    assert configuration.approval_bytes() is None
    monkeypatch.setenv("AIRFLOW__COMPACTOR__APPROVAL_BYTES", "2kb")
    assert configuration.approval_bytes() == 2048
    monkeypatch.setenv("AIRFLOW__COMPACTOR__APPROVAL_BYTES", "much")
    with pytest.raises(BadSetting, match="approval_bytes"):
        configuration.approval_bytes()


def test_one_of_what_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert configuration.read_choice("launcher", "spark-submit", "process") == "spark-submit"
    monkeypatch.setenv("AIRFLOW__COMPACTOR__LAUNCHER", "rocket")
    with pytest.raises(BadSetting, match="'rocket'; expected: one of 'spark-submit', 'process'"):
        configuration.read_choice("launcher", "spark-submit", "process")


@pytest.mark.parametrize(("said", "meant"), [("True", True), ("true", True), ("False", False), ("false", False)])
def test_a_truth_value(monkeypatch: pytest.MonkeyPatch, said: str, meant: bool) -> None:
    assert boolean("table_assets") is True
    monkeypatch.setenv("AIRFLOW__COMPACTOR__TABLE_ASSETS", said)
    assert boolean("table_assets") is meant

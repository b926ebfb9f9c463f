from __future__ import annotations

import importlib
import importlib.resources
import json
from importlib.metadata import entry_points

import jsonschema
from airflow.providers_manager import ProvidersManager
from airflow.sdk import BaseOperatorLink
from airflow.sdk.providers_manager_runtime import ProvidersManagerTaskRuntime

from compactor.airflow.assets import convert_asset_to_openlineage, create_asset, sanitize_uri
from compactor.airflow.options import OPTIONS
from compactor.airflow.provider import provider_info


def test_airflows_own_schema_takes_it() -> None:
    schema = json.loads(importlib.resources.files("airflow").joinpath("provider_info.schema.json").read_text("utf-8"))
    jsonschema.validate(provider_info(), schema)


def test_it_is_found_by_its_entry_point() -> None:
    (found,) = (e for e in entry_points(group="apache_airflow_provider") if e.value.startswith("compactor."))
    assert found.load() is provider_info
    assert found.dist is not None
    assert found.dist.name == provider_info()["package-name"]


def test_every_module_and_class_that_it_names_is_there() -> None:
    info = provider_info()
    for kind in ("operators", "sensors", "hooks", "triggers"):
        for group in info[kind]:
            for module in group["python-modules"]:
                importlib.import_module(module)
    for decorator in info["task-decorators"]:
        module, _, name = decorator["class-name"].rpartition(".")
        assert callable(getattr(importlib.import_module(module), name))
    for path in info["extra-links"]:
        module, _, name = path.rpartition(".")
        assert issubclass(getattr(importlib.import_module(module), name), BaseOperatorLink)
    (connection,) = info["connection-types"]
    module, _, name = connection["hook-class-name"].rpartition(".")
    assert getattr(importlib.import_module(module), name).conn_type == connection["connection-type"] == "hive_compactor"


def test_airflow_takes_connection_type_form_section_and_uris() -> None:
    """Airflow's own view of us after it has loaded every provider; it leaves out whatever it rejects."""
    found, at_work = ProvidersManager(), ProvidersManagerTaskRuntime()
    hook = at_work.hooks["hive_compactor"]
    assert hook is not None
    assert (hook.package_name, hook.connection_id_attribute_name) == ("hive-compactor", "conn_id")
    assert set(found.field_behaviours["hive_compactor"]["relabeling"]) == {"host", "password"}
    fields = {key for key in found.connection_form_widgets if key.startswith("extra__hive_compactor__")}
    assert fields == {"extra__hive_compactor__hive_conf", "extra__hive_compactor__state_url"}
    assert set(dict(found.provider_configs)["hive-compactor"]["compactor"]["options"]) == set(OPTIONS)
    assert at_work.asset_uri_handlers["hive"] is sanitize_uri
    assert at_work.asset_factories["hive"] is create_asset
    assert at_work.asset_to_openlineage_converters["hive"] is convert_asset_to_openlineage
    assert set(found.extra_links_class_names) >= set(provider_info()["extra-links"])
    assert "compactor.airflow.triggers" in {name for trigger in found.trigger for name in trigger}


def test_every_option_is_described() -> None:
    assert set(provider_info()["config"]["compactor"]["options"]) == set(OPTIONS)

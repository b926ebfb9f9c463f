from __future__ import annotations

import importlib
import importlib.resources
import json
from importlib.metadata import entry_points

import jsonschema

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
    (connection,) = info["connection-types"]
    module, _, name = connection["hook-class-name"].rpartition(".")
    assert getattr(importlib.import_module(module), name).conn_type == connection["connection-type"] == "compactor"


def test_every_option_is_described() -> None:
    assert set(provider_info()["config"]["compactor"]["options"]) == set(OPTIONS)

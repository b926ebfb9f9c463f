"""The description for Airflow's provider manager.

Connection type, configuration section, asset URIs, modules.
"""

from __future__ import annotations

from typing import Any

from compactor import __version__
from compactor.airflow.options import CONNECTION_TYPE, OPTIONS, SECTION


def provider_info() -> dict[str, Any]:
    """Returns the provider's description, for the entry point ``apache_airflow_provider``."""
    return {
        "package-name": "hive-compactor",
        "name": "Hive Compactor",
        "description": "Compacts Hive ACID tables: Airflow schedules, Spark rewrites, the metastore remembers.",
        "versions": [__version__],
        "integrations": [{"integration-name": "Hive Compactor", "tags": ["software"]}],
        "operators": [
            _list_modules("compactor.airflow.operators"),
            _list_modules("compactor.airflow.compact_table"),
            _list_modules("compactor.airflow.mirror_table"),
        ],
        "sensors": [_list_modules("compactor.airflow.sensors")],
        "hooks": [_list_modules("compactor.airflow.hooks")],
        "task-decorators": [{"name": "compact", "class-name": "compactor.airflow.compact_table.compact_task"}],
        "triggers": [_list_modules("compactor.airflow.triggers"), _list_modules("compactor.airflow.commits")],
        "extra-links": ["compactor.airflow.links.HistoryLink", "compactor.airflow.links.SparkLink"],
        "connection-types": [_describe_connection()],
        "asset-uris": [_describe_assets()],
        "config": _describe_options(),
    }


def _list_modules(name: str) -> dict[str, Any]:
    return {"integration-name": "Hive Compactor", "python-modules": [name]}


def _describe_connection() -> dict[str, Any]:
    text = {"type": ["string", "null"]}
    return {
        "connection-type": CONNECTION_TYPE,
        "hook-class-name": "compactor.airflow.hooks.CompactorHook",
        "hook-name": "Hive Compactor",
        "ui-field-behaviour": {
            "hidden-fields": ["schema", "port", "login", "extra"],
            "relabeling": {"host": "Warehouse", "password": "Metastore URL"},
            "placeholders": {"password": "sqlite:////var/lib/compactor/metastore.db"},
        },
        "conn-fields": {
            "hive_conf": {"label": "Folder of hive-site.xml", "schema": text},
            "state_url": {"label": "URL of Compactor's own state", "schema": text | {"format": "password"}},
        },
    }


def _describe_assets() -> dict[str, Any]:
    """Returns the handlers of URIs with scheme ``hive``, which no other provider handles."""
    module = "compactor.airflow.assets"
    return {
        "schemes": ["hive"],
        "handler": f"{module}.sanitize_uri",
        "factory": f"{module}.create_asset",
        "to_openlineage_converter": f"{module}.convert_asset_to_openlineage",
    }


def _describe_options() -> dict[str, Any]:
    return {
        SECTION: {
            "description": "Compaction of Hive ACID tables.",
            "options": {
                key: {
                    "description": option.description,
                    "version_added": "0.1.0",
                    "type": option.type,
                    "example": option.example,
                    "default": option.default,
                }
                for key, option in OPTIONS.items()
            },
        }
    }

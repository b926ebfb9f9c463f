"""The hook: how a task opens a deployment."""

from __future__ import annotations

from typing import Any

from airflow.sdk import BaseHook

from compactor.airflow.configuration import text
from compactor.deployment import Deployment, open_deployment


class CompactorHook(BaseHook):
    """Opens the metastore ``name`` as ``compactor.toml`` and the environment say."""

    conn_type = "compactor"
    hook_name = "Hive Compactor"

    def __init__(self, name: str = "default") -> None:
        super().__init__()
        self.name = name

    def get_conn(self) -> Deployment:
        """The open deployment, a context manager.

        Raises:
            CompactorError: it is not configured, or its database cannot be reached.
        """
        return open_deployment(self.name, config_path=text("config") or None)

    def test_connection(self) -> tuple[bool, str]:
        """For the connection form's button."""
        with self.get_conn() as deployment:
            return True, f"metastore {deployment.name} answers"

    @staticmethod
    def get_ui_field_behaviour() -> dict[str, Any]:
        return {"hidden_fields": ["schema", "port", "login"], "relabeling": {}}

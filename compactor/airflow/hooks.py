"""The hook: how a task opens a metastore."""

from __future__ import annotations

from contextlib import AbstractContextManager

from airflow.sdk import BaseHook

from compactor.airflow.configuration import text
from compactor.airflow.options import CONNECTION_TYPE
from compactor.deployment import open_deployment
from compactor.service.site import Site

#: What a connection says, and the environment variable by which the driver of an application learns it.
ENVIRONMENT = {
    "url": "COMPACTOR_METASTORE_URL",
    "state_url": "COMPACTOR_STATE_URL",
    "warehouse": "COMPACTOR_WAREHOUSE",
    "hive_conf": "COMPACTOR_HIVE_CONF",
}


class CompactorHook(BaseHook):
    """Opens the metastore ``name`` as the connection, ``compactor.toml`` and the environment say.

    ``conn_id`` names the connection; None is the one that ``[compactor] conn_id`` names for this metastore, if any.
    """

    conn_name_attr = "conn_id"
    default_conn_name = "compactor_default"
    conn_type = CONNECTION_TYPE
    hook_name = "Hive Compactor"

    def __init__(self, name: str = "default", conn_id: str | None = None) -> None:
        super().__init__()
        self.name = name
        self.conn_id = conn_id

    def get_conn(self) -> AbstractContextManager[Site]:
        """The open metastore, as a context.

        Raises:
            CompactorError: it is not configured, or its database cannot be reached.
        """
        return open_deployment(self.name, flags=self.connection(), config_path=text("config") or None)

    def connection(self) -> dict[str, str]:
        """What the Airflow connection says, by the keys of ``ENVIRONMENT``; empty where none is configured.

        Raises:
            AirflowNotFoundException: ``[compactor] conn_id`` names one that is not there.
        """
        conn_id = self.conn_id or text("conn_id").replace("{metastore}", self.name)
        if not conn_id:
            return {}
        found = self.get_connection(conn_id)
        extra = found.extra_dejson
        values = {"url": found.password, "warehouse": found.host}
        values |= {key: extra.get(key) for key in ("state_url", "hive_conf")}
        return {key: value for key, value in values.items() if value}

    def driver_environment(self) -> dict[str, str]:
        """``connection`` as environment variables of a driver that is a child of this process."""
        return {ENVIRONMENT[key]: value for key, value in self.connection().items()}

    def test_connection(self) -> tuple[bool, str]:
        """For the connection form's button."""
        with self.get_conn() as site:
            return True, f"metastore {site.name} answers"

"""The hook with which a task opens a metastore."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager
from functools import cache, partial

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowNotFoundException
from airflow.sdk.log import mask_secret

from compactor.airflow.configuration import metastore_names, text
from compactor.airflow.options import CONNECTION_TYPE
from compactor.base.redaction import list_remembered
from compactor.site.deployment import OTHERS, Configuration, configure, open_site
from compactor.site.site import Site

#: The keys of a connection, and the environment variables that pass them to the driver of an application.
ENVIRONMENT = {
    "url": "COMPACTOR_METASTORE_URL",
    "state_url": "COMPACTOR_STATE_URL",
    "warehouse": "COMPACTOR_WAREHOUSE",
    "hive_conf": "COMPACTOR_HIVE_CONF",
}


class CompactorHook(BaseHook):
    """Opens the metastore ``name``.

    It uses the configuration of the connection, ``compactor.toml`` and the environment.

    ``conn_id`` names the connection; None means the one of ``[compactor] conn_id`` for this metastore, if any.
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
        """Opens the metastore as a context manager.

        Raises:
            CompactorError: the metastore is not configured, or its database cannot be reached.
        """
        return open_site(self.configuration())

    def configuration(self) -> Configuration:
        """Returns the metastore's configuration; opens nothing.

        Raises:
            BadSetting: the configuration is missing or wrong.
            AirflowNotFoundException: ``[compactor] conn_id`` names a connection that does not exist.
        """
        others = {name: partial(_read_connection, name) for name in metastore_names() if name != self.name}
        configuration = configure(self.name, flags=self.connection(), config_path=text("config") or None, others=others)
        for secret in list_remembered():
            _hide_in_logs(secret)
        return configuration

    def connection(self) -> dict[str, str]:
        """Returns the values of the Airflow connection by the keys of ``ENVIRONMENT``.

        Returns nothing if none is configured.

        Raises:
            AirflowNotFoundException: ``[compactor] conn_id`` names a connection that does not exist.
        """
        conn_id = self.conn_id or text("conn_id").replace("{metastore}", self.name)
        if not conn_id:
            return {}
        connection = self.get_connection(conn_id)
        extra = connection.extra_dejson
        values = {"url": connection.password, "warehouse": connection.host}
        values |= {key: extra.get(key) for key in ("state_url", "hive_conf")}
        return {key: value for key, value in values.items() if value}

    def driver_environment(self) -> dict[str, str]:
        """Returns the connection as environment variables for a driver that is a child of this process.

        It includes the connections of other metastores, in whose directories the driver must not work.
        """
        own = {ENVIRONMENT[key]: value for key, value in self.connection().items()}
        others = {name: _read_connection(name) for name in metastore_names() if name != self.name}
        configured = {name: connection for name, connection in others.items() if connection}
        return own | ({OTHERS: json.dumps(configured)} if configured else {})

    def test_connection(self) -> tuple[bool, str]:
        """Tests the connection, for the button of the connection form."""
        with self.get_conn() as site:
            return True, f"metastore {site.name} answers"


def _read_connection(metastore: str) -> dict[str, str]:
    """Returns the connection of another metastore; empty if Airflow has none for it."""
    try:
        return CompactorHook(metastore).connection()
    except AirflowNotFoundException:
        return {}


@cache
def _hide_in_logs(secret: str) -> None:
    """Lets Airflow hide ``secret`` in all logs of the task, its libraries and child processes."""
    mask_secret(secret)

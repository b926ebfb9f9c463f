"""The plugin, registered by entry point; it is imported by every Airflow component and so stays empty of work."""

from __future__ import annotations

from airflow.plugins_manager import AirflowPlugin


class CompactorPlugin(AirflowPlugin):
    """Makes ``airflow plugins`` say that Compactor is there."""

    name = "compactor"

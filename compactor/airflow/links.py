"""Links of our tasks in Airflow's UI: to a table's history, and to Spark's page of an application."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from airflow.sdk import BaseOperatorLink

from compactor.airflow.configuration import below_airflow
from compactor.airflow.options import PREFIX

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator


class HistoryLink(BaseOperatorLink):
    """A link to the page's history of the operator's ``table``, or of the whole metastore."""

    name = "Compactor"

    def get_link(self, operator: BaseOperator, *, ti_key: Any) -> str:
        """Returns the path of the history of ``operator.metastore`` on Airflow's server."""
        table = getattr(operator, "table", None)
        find = f"?{urlencode({'find': table})}" if isinstance(table, str) else ""
        return below_airflow(f"{PREFIX}/{quote(operator.metastore)}/history{find}")


class SparkLink(BaseOperatorLink):
    """A link to Spark's page of the application that last ran the operator's compactions.

    It is empty if there is none.
    """

    name = "Spark"

    def get_link(self, operator: BaseOperator, *, ti_key: Any) -> str:
        """Returns the address that the application recorded; empty if it recorded none."""
        from compactor.airflow import tasks

        return tasks.tracking_url(operator.metastore, operator.compactions) or ""

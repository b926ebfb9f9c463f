"""Links of our tasks in Airflow's UI: the page's history of a table, and Spark's own page of an application."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from airflow.sdk import BaseOperatorLink

from compactor.airflow.configuration import below_airflow
from compactor.airflow.options import PREFIX

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator


class HistoryLink(BaseOperatorLink):
    """To the page's history: of the operator's ``table``, or of the whole metastore."""

    name = "Compactor"

    def get_link(self, operator: BaseOperator, *, ti_key: Any) -> str:
        """Returns the path of the history of ``operator.metastore`` below the address of Airflow."""
        table = getattr(operator, "table", None)
        find = f"?{urlencode({'find': table})}" if isinstance(table, str) else ""
        return below_airflow(f"{PREFIX}/{quote(operator.metastore)}/history{find}")


class SparkLink(BaseOperatorLink):
    """To Spark's page of the application that ran the operator's compactions last; empty if it has none."""

    name = "Spark"

    def get_link(self, operator: BaseOperator, *, ti_key: Any) -> str:
        """Returns the address that the application gave, if it did."""
        from compactor.airflow import tasks

        return tasks.tracking_url(operator.metastore, operator.compactions) or ""

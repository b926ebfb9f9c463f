"""The Airflow face: five DAGs for each metastore. Airflow drives, the queue in the metastore database is the state."""

from __future__ import annotations

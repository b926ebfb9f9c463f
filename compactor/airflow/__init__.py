"""The Airflow face: five DAGs for each metastore.

Airflow schedules; the state is the queue in the metastore database.
"""

from __future__ import annotations

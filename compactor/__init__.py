"""Compactor keeps Hive ACID tables fast.

Airflow schedules, Spark rewrites, the metastore database remembers.
"""

from __future__ import annotations

__version__ = "0.1.0"

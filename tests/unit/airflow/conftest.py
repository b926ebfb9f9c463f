"""Airflow reads its home when it is first imported, so it is set here, before any test module is."""

from __future__ import annotations

from tests.support.airflow_home import prepare

prepare()

"""For sites that mount folders instead of installing the package; with the entry point it is listed once."""

from __future__ import annotations

from compactor.airflow.plugin import CompactorPlugin as CompactorPlugin

"""The plugin for sites that mount folders instead of installing the package. With both, Airflow loads it once."""

from __future__ import annotations

from compactor.airflow.plugin import CompactorPlugin as CompactorPlugin

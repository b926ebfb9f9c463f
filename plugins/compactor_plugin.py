"""The plugin for sites that mount folders instead of installing the package; beside the entry point it counts once."""

from __future__ import annotations

from compactor.airflow.plugin import CompactorPlugin as CompactorPlugin

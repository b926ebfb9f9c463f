from __future__ import annotations

import runpy
from importlib.metadata import entry_points
from pathlib import Path

from compactor.airflow.plugin import CompactorPlugin


def test_it_is_found_by_its_entry_point() -> None:
    (found,) = (e for e in entry_points(group="airflow.plugins") if e.value.startswith("compactor."))
    assert found.load() is CompactorPlugin


def test_the_file_for_plugin_folders_gives_the_same_class() -> None:
    path = Path(__file__).parents[3] / "plugins" / "compactor_plugin.py"
    assert runpy.run_path(str(path))["CompactorPlugin"] is CompactorPlugin

from __future__ import annotations

import runpy
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

from compactor.airflow.plugin import CompactorPlugin


def test_it_is_found_by_its_entry_point() -> None:
    (found,) = (e for e in entry_points(group="airflow.plugins") if e.value.startswith("compactor."))
    assert found.load() is CompactorPlugin


def test_the_file_for_plugin_folders_gives_the_same_class() -> None:
    path = Path(__file__).parents[3] / "plugins" / "compactor_plugin.py"
    assert runpy.run_path(str(path))["CompactorPlugin"] is CompactorPlugin


def test_a_component_that_shows_no_page_builds_none() -> None:
    """Every component of Airflow imports every plugin."""
    code = (
        "import sys; import compactor.airflow.plugin; "
        "print([m for m in ('fastapi', 'compactor.airflow.page.app', 'compactor.site') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip().endswith("[]")

"""Where tests have new files written."""

from __future__ import annotations

from pathlib import Path

from compactor.rows.new_file import NewFileTarget
from compactor.rows.remote_source import LOCAL


def target(folder: Path, name: str = "out") -> NewFileTarget:
    """Returns the file ``name`` in a local ``folder``."""
    return NewFileTarget(storage=LOCAL, home=str(folder), path=str(folder / name))

"""Directories as drivers make them before anything is written to them."""

from __future__ import annotations

from pathlib import Path


def staging_of(folder: Path, name: str = ".compactor_v7") -> str:
    """Returns the path of a staging directory in ``folder`` that takes attempts, as a driver prepares it."""
    for path in (folder / name, folder / name / "attempts"):
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    return str(folder / name)

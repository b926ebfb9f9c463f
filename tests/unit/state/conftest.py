"""State in a file of its own."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from compactor.state.state_database import OwnState, open_state


@pytest.fixture
def fresh(empty_metastore: Path, tmp_path: Path) -> Iterator[OwnState]:
    """Empty, beside an empty metastore."""
    shutil.copyfile(empty_metastore, tmp_path / "fresh.db")
    opened = open_state(f"sqlite:///{tmp_path / 'fresh.db'}")
    yield opened
    opened.close()

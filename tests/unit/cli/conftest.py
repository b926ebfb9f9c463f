"""A command line against ``metastore``, in this process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from compactor.cli.program import program


@pytest.fixture
def compactor(metastore_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Calls it from a directory without a compactor.toml."""
    monkeypatch.setenv("COMPACTOR_METASTORE_URL", metastore_url)
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: CliRunner().invoke(program, arguments)

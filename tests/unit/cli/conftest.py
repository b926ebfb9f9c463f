"""The command line on the fixture ``metastore``, in this process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from compactor.cli.program import program


@pytest.fixture
def compactor(metastore_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Returns a function that runs the command line in a directory without a compactor.toml."""
    monkeypatch.setenv("COMPACTOR_METASTORE_URL", metastore_url)
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: CliRunner().invoke(program, arguments)

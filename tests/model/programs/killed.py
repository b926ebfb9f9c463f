"""A statement of Python in a process that is killed at one of its steps; imported there alone, and by who starts it."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from compactor.base import steps
from compactor.base.errors import CompactorError
from compactor.base.steps import AnyStep
from compactor.site.deployment import configure, open_site
from tests.model.programs.doors import Change, PythonDoor
from tests.model.programs.plain_tables import Condition, PlainTable
from tests.support.forked import forked
from tests.support.patience import PATIENCE


def kill(folder: Path, change: Change, table: PlainTable, nth: int) -> int | None:
    """Does a change in a process that is killed at the ``nth`` step that it reaches, and returns its exit code: 0 if it
    reached fewer, 1 if it failed before."""
    values = {name: getattr(change, name) for name in ("kind", "name", "rows", "values")}
    process = forked(_change, folder, values, change.where.text, table, nth)
    process.start()
    process.join(PATIENCE)
    assert process.exitcode in (0, 1, -signal.SIGKILL), process.exitcode
    return process.exitcode


def _change(folder: Path, values: Mapping[str, Any], where: str, table: PlainTable, nth: int) -> None:
    left = nth

    def count(step: AnyStep) -> None:
        nonlocal left
        left -= 1
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)

    environment = {"COMPACTOR_CONFIG": str(folder / "compactor.toml")}
    change = Change(**values, where=Condition(where, lambda row: None))
    with open_site(configure("default", environment=environment)) as site:
        door = PythonDoor(site, folder)
        steps.watchers.append(count)
        try:
            door.change(change, table)
        except CompactorError:
            os._exit(1)

"""A process in which every role passes over tables with bombs in them, and that says what it took."""

from __future__ import annotations

import json
import os
import resource
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compactor.site.deployment import configure, open_site
from tests.support.forked import forked
from tests.support.hostile import every_role
from tests.support.patience import PATIENCE

SETTINGS = {
    "compactor.mode": "clean",
    "hive.compactor.delta.num.threshold": "1",
    "hive.compactor.abortedtxn.threshold": "0",
    "hive.txn.opentxn.timeout": "1ms",
    "compactor.forget.grace": "0s",
}
_LIMIT = 6 << 30  #: bytes of memory, so that a bomb that goes off hurts nobody else


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The outcome of each table's request, by its name, and the bytes of memory that a process needed for all of them."""

    outcomes: dict[str, tuple[str, str]]
    peak: int


def passed_over(metastore_url: str, folder: Path, **settings: str) -> Report:
    """Runs every role once in a process of its own.

    Raises:
        AssertionError: the process died.
    """
    target = folder / "report.json"
    process = forked(_pass, metastore_url, str(target), SETTINGS | settings)
    process.start()
    process.join(PATIENCE)
    process.kill()  # if it goes on and on
    process.join()
    assert process.exitcode == 0, f"the pass ended with {process.exitcode}"
    found: dict[str, Any] = json.loads(target.read_text())
    return Report(outcomes={k: tuple(v) for k, v in found["outcomes"].items()}, peak=found["peak"])


def _pass(metastore_url: str, target: str, settings: dict[str, str]) -> None:
    resource.setrlimit(resource.RLIMIT_DATA, (_LIMIT, _LIMIT))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    configuration = configure(flags=settings, environment={"COMPACTOR_METASTORE_URL": metastore_url})
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts again
    before = _peak()
    with open_site(configuration) as site:
        done = every_role(site).outcomes
    outcomes = {outcome.entry.entity.table: (outcome.result.name, outcome.message) for outcome in done}
    Path(target).write_text(json.dumps({"outcomes": outcomes, "peak": _peak() - before}))
    os._exit(0)


def _peak() -> int:
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024

"""Times what comes before the answer: ``python benchmarks/start_up.py [--before CHECKOUT]``.

Each command runs over an embedded metastore with one table, in turn with ``python -c "import sqlalchemy"``. ``--before``
names another checkout with its .venv: imports of roles and of an executor's package run in turn in both. Processor time and
largest memory of whole processes; medians.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.parts.report import Row, conclude, progress
from compactor.site.deployment import configure, open_site
from compactor.state import state_upgrade
from tests.support.tables import insert, make_table

ROOT = Path(__file__).parents[1]
PAIRS = 5
PEER = "import sqlalchemy"
#: The bars of processor time and of memory, beside the peer.
COMMANDS = {
    "show compactions": (1.6, 1.7),
    "explain default.t": (1.6, 1.7),
    "compact default.t": (1.6, 1.7),
    "--help": (0.5, 1.7),
}
#: Imports that a task of Airflow needs in addition to Airflow, by the task's role.
ROLES = {
    "initiator": "compactor.initiator.initiator",
    "worker": "compactor.batches.assembly",
    "worker's watch": "compactor.launch.batch_watch",
    "cleaner": "compactor.cleaner.cleaner",
    "housekeeper": "compactor.housekeeper.housekeeper",
}
_OF_ROLES = 0.6
_OF_EXECUTORS = 0.5
_COMMAND = "import sys; sys.argv[0] = 'compactor'; from compactor.cli import main; main()"
#: Says the largest memory at the end. The kernel's figure of a child contains what its parent had before exec.
_PEAK = (
    "import atexit, sys; atexit.register(lambda: print([line.split()[1] for line in open('/proc/self/status') "
    "if line.startswith('VmHWM')][0], file=sys.stderr)); "
)
#: What Airflow and Spark have imported before us. The processor time of the rest is printed.
_BEFORE_ROLES = "import airflow.sdk, sqlalchemy"
_BEFORE_EXECUTORS = "import pyspark"


def run(python: Path, code: str, environment: Mapping[str, str], arguments: Sequence[str] = ()) -> tuple[float, float]:
    """Returns seconds of CPU and the largest memory in MiB of one process."""
    process = subprocess.Popen(
        [python, "-c", _PEAK + code, *arguments], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    assert process.stderr is not None
    error = process.stderr.read().decode()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 3):  # 3: refused, since the first run has requested it
        raise RuntimeError(error)
    return usage.ru_utime + usage.ru_stime, int(error.split()[-1]) / 1024


def measure_command(command: str, environment: Mapping[str, str]) -> list[Row]:
    python = Path(sys.executable)
    pairs = [
        (run(python, _COMMAND, environment, command.split()), run(python, PEER, environment)) for _ in range(PAIRS + 1)
    ][1:]
    rows = []
    for at, what in enumerate(("CPU", "memory")):
        ratios = [ours[at] / peer[at] for ours, peer in pairs]
        unit = 1000 if at == 0 else 1
        details = {
            "of it": statistics.median(ours[at] for ours, _ in pairs) * unit,
            "of the peer": statistics.median(peer[at] for _, peer in pairs) * unit,
            "least": min(ratios),
            "most": max(ratios),
        }
        bar = COMMANDS[command][at]
        rows.append(
            Row(
                work=f"{command}, {what} to import sqlalchemy",
                bar=bar,
                measured=statistics.median(ratios),
                details=details,
            )
        )
        progress(rows[-1].line())
    return rows


def time_imports(python: Path, modules: str, first: str, environment: Mapping[str, str]) -> float:
    """Returns the processor time of importing ``modules`` after ``first``, in milliseconds."""
    code = f"import time; {first}; t = time.process_time(); import {modules}; print(time.process_time() - t)"
    done = subprocess.run(
        [python, "-W", "ignore", "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    return float(done.stdout.split()[-1]) * 1000


def compare_imports(
    name: str, modules: str, first: str, bar: float, before: Path, environment: Mapping[str, str]
) -> Row:
    old, new = before / ".venv/bin/python", Path(sys.executable)
    pairs = [
        (time_imports(new, modules, first, environment), time_imports(old, modules, first, environment))
        for _ in range(PAIRS // 2 + 1)
    ][1:]
    ratios = [now / then for now, then in pairs]
    details = {
        "ms": statistics.median(now for now, _ in pairs),
        "ms before": statistics.median(then for _, then in pairs),
        "least": min(ratios),
        "most": max(ratios),
    }
    row = Row(
        work=f"{name} to before, CPU of our imports", bar=bar, measured=statistics.median(ratios), details=details
    )
    progress(row.line())
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before", type=Path, help="directory of another checkout with its .venv")
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        (home / "warehouse").mkdir()
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("COMPACTOR_", "PYTHON"))}
        environment |= {
            "COMPACTOR_METASTORE_URL": f"sqlite:///{home / 'metastore.db'}",
            "COMPACTOR_WAREHOUSE": str(home / "warehouse"),
            "AIRFLOW_HOME": str(home / "airflow"),
        }
        os.chdir(home)
        run(Path(sys.executable), _COMMAND, environment, ["metastore", "init"])
        state_upgrade.init(environment["COMPACTOR_METASTORE_URL"]).close()
        with open_site(configure(environment=environment)) as site:
            table = make_table(site, home / "warehouse")
            for value in (1, 2, 3):
                insert(site, table, [value])
        for command in COMMANDS:
            rows += measure_command(command, environment)
        if options.before is not None:
            before = options.before.resolve()
            rows += [
                compare_imports(role, modules, _BEFORE_ROLES, _OF_ROLES, before, environment)
                for role, modules in ROLES.items()
            ]
            rows.append(
                compare_imports(
                    "spark_tables", "compactor.spark_tables", _BEFORE_EXECUTORS, _OF_EXECUTORS, before, environment
                )
            )
    conclude(rows, "start_up")


if __name__ == "__main__":
    main()

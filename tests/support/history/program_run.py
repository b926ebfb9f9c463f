"""Many processes that write and read tables, some of them killed or suspended at random, and everything recorded.

``python -m tests.support.history.program_run CONFIG LOCATION FOLDER SECONDS PROCESSES SEED PACE TIMEOUT``. CONFIG is a
compactor.toml of an empty metastore, whose transactions time out after TIMEOUT seconds; LOCATION an empty directory of its
store. FOLDER gets a file for each process; an observer that has seen enough creates ``stop`` in it. PACE is the mean number
of seconds from one killed or suspended process to the next.
"""

from __future__ import annotations

import random
import sys
import time
from pathlib import Path

from compactor.tables import open_metastore
from tests.support.history.programs import Program, look_at_the_end, prepare
from tests.support.history.recorder import Recorder
from tests.support.history.run import Nemesis


def main(
    config: str, location: str, folder: Path, seconds: float, processes: int, seed: str, pace: float, timeout: float
) -> None:
    (folder / "dead").mkdir()
    prepare(config, location)
    until = time.monotonic() + seconds

    def stop() -> bool:
        return time.monotonic() > until or (folder / "stop").exists()

    def work(name: str) -> None:
        with open_metastore(config_path=config) as store:
            Program(store, Recorder(folder, name), f"{seed}/{name}").run(stop)

    pauses = (0.1, 0.5, 1.5 * timeout)  # the last is beyond the time-out
    nemesis = Nemesis(start=work, dead=folder / "dead", random=random.Random(seed), pauses=pauses, seconds=pace)
    for _ in range(processes):
        nemesis.fork()
    try:
        nemesis.rage(stop)
    finally:
        (folder / "stop").touch()
        nemesis.end()
    look_at_the_end(config, Recorder(folder, "end"))
    if nemesis.failed:
        raise SystemExit("; ".join(nemesis.failed))


if __name__ == "__main__":
    main(
        sys.argv[1],
        sys.argv[2],
        Path(sys.argv[3]),
        float(sys.argv[4]),
        int(sys.argv[5]),
        sys.argv[6],
        float(sys.argv[7]),
        float(sys.argv[8]),
    )

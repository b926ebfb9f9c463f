"""Many processes on one metastore, some of them killed or suspended at random, and everything they do recorded.

``python -m tests.support.history.run URL FOLDER SECONDS PROCESSES SEED [BROKEN]``. The metastore is empty but for the
database ``default``. FOLDER gets a file for each process; an observer that has seen enough creates ``stop`` in it.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.history.broken import BROKEN
from tests.support.history.recorder import Recorder
from tests.support.history.workload import Workload, look_at_the_end, opened, prepare, unprepare

_GRACE_SECONDS = 120.0  #: a process has this long to finish its current call when the time is over


@dataclass(slots=True, kw_only=True)
class Nemesis:
    """Starts processes and now and then kills one, or suspends one for a while."""

    start: Callable[[str], None]  #: the work of a process of that name; it runs in a child
    dead: Path
    random: random.Random
    pauses: tuple[float, ...] = (0.05, 0.1, 1.0)  #: seconds that a process is suspended for
    seconds: float = 0.2  #: from one to the next, on average
    running: dict[int, str] = field(default_factory=dict)
    started: int = 0
    failed: list[str] = field(default_factory=list)

    def fork(self) -> None:
        self.started += 1
        name = f"p{self.started}"
        child = os.fork()
        if child:
            self.running[child] = name
            return
        try:
            self.start(name)
        finally:  # a child must never continue as its parent
            if sys.exc_info()[0] is not None:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)

    def rage(self, stop: Callable[[], bool]) -> None:
        """Kills and suspends processes until ``stop`` says that it is over."""
        while not stop() and not self.failed:
            time.sleep(self.random.uniform(0.25, 1.75) * self.seconds)
            victim = self.random.choice(sorted(self.running))
            if self.random.random() < 0.7:
                os.kill(victim, signal.SIGKILL)
                self._gone(victim)
                self.fork()
            else:
                os.kill(victim, signal.SIGSTOP)
                time.sleep(self.random.choice(self.pauses))
                os.kill(victim, signal.SIGCONT)
            self._notice()

    def end(self) -> None:
        """Waits for all; a process that does not end in time is killed and counts as failed."""
        deadline = time.monotonic() + _GRACE_SECONDS
        while self.running and time.monotonic() < deadline:
            self._notice()
            time.sleep(0.01)
        for child, name in list(self.running.items()):
            self.failed.append(f"{name} did not end")
            os.kill(child, signal.SIGKILL)
            self._gone(child)

    def _gone(self, child: int) -> None:
        os.waitpid(child, 0)
        (self.dead / self.running.pop(child)).touch()

    def _notice(self) -> None:
        """Notes processes that ended by themselves."""
        for child, name in list(self.running.items()):
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                del self.running[child]
                if status:
                    self.failed.append(f"{name} ended with status {status}")


def main(url: str, folder: Path, seconds: float, processes: int, seed: str, broken: str = "") -> None:
    with suppress(FileExistsError):
        (folder / "dead").mkdir()
    metastore = opened(url)
    places = prepare(metastore)
    metastore.close()
    until = time.monotonic() + seconds

    def stop() -> bool:
        return time.monotonic() > until or (folder / "stop").exists()

    def work(name: str) -> None:
        mine = opened(url)
        if broken:
            BROKEN[broken](mine)
        Workload(mine, Recorder(folder, name), places, folder / "dead", f"{seed}/{name}").run(stop)

    nemesis = Nemesis(start=work, dead=folder / "dead", random=random.Random(seed))
    for _ in range(processes):
        nemesis.fork()
    try:
        nemesis.rage(stop)
    finally:
        (folder / "stop").touch()
        nemesis.end()
    look_at_the_end(metastore, Recorder(folder, "end"))
    unprepare(metastore)
    metastore.close()
    if nemesis.failed:
        raise SystemExit("; ".join(nemesis.failed))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4]), sys.argv[5], *sys.argv[6:])

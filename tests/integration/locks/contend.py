"""Many processes that lock random objects in random order; prints as JSON how often each held all it wanted.

``python contend.py MANAGER WHERE PROCESSES ROUNDS DIRECTORY``: MANAGER is metastore or zookeeper. While it holds an object
exclusively, a process is the only one with a file in that object's directory.
"""

from __future__ import annotations

import contextlib
import json
import logging
import multiprocessing
import os
import random
import sys
import time
from pathlib import Path
from typing import Any

from compactor.base.ids import TxnId
from compactor.locking.lock_types import LockRequest, LockType
from compactor.metastore.locks.lock_manager import LockManager, wait_for
from tests.support.patience import PATIENCE

OBJECTS = 5


def work(manager: str, where: str, number: int, rounds: int, directory: Path, results: Any) -> None:
    draw = random.Random(number)
    with contextlib.ExitStack() as stack:
        locks: LockManager
        if manager == "zookeeper":
            from compactor.metastore.locks.zookeeper import open_zookeeper_locks

            logging.getLogger("kazoo").setLevel(logging.CRITICAL)
            locks = stack.enter_context(contextlib.closing(open_zookeeper_locks(where)))
        else:
            from compactor.metastore.metastore import open_metastore

            metastore = stack.enter_context(contextlib.closing(open_metastore("default", where)))
            locks = metastore.locks
        errors: list[str] = []
        for _ in range(rounds):
            wanted = draw.sample(range(OBJECTS), 3)
            kinds = {n: draw.choice((LockType.SHARED_READ, LockType.EXCLUSIVE)) for n in wanted}
            requests = [LockRequest(database="d", table=f"t{n}", type=kind) for n, kind in kinds.items()]
            times = (draw.randrange(2, 40) for _ in range(20_000))
            lock = wait_for(locks, TxnId(0), requests, "u", "h", times=times, sleep=time.sleep)
            errors += hold(directory, number, kinds)
            locks.release(lock.id)
        results.put(errors)


def hold(directory: Path, number: int, kinds: dict[int, LockType]) -> list[str]:
    """Returns what contradicts the locks: another process in an object that one process holds exclusively."""
    found = []
    for n, kind in kinds.items():
        place = directory / f"t{n}"
        (place / f"{kind.value}-{number}").touch()
    time.sleep(0.002)
    for n, kind in kinds.items():
        others = [name for name in os.listdir(directory / f"t{n}") if not name.endswith(f"-{number}")]
        if others and (kind is LockType.EXCLUSIVE or any(name.startswith("e-") for name in others)):
            found.append(f"{number} holds {kind.name} of t{n} beside {others}")
    for n, kind in kinds.items():
        (directory / f"t{n}" / f"{kind.value}-{number}").unlink()
    return found


def main(manager: str, where: str, processes: int, rounds: int, directory: Path) -> None:
    for n in range(OBJECTS):
        (directory / f"t{n}").mkdir()
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["compactor.metastore.metastore", "compactor.metastore.locks.zookeeper"])
    results = context.Queue()
    arguments = (manager, where)
    running = [context.Process(target=work, args=(*arguments, n, rounds, directory, results)) for n in range(processes)]
    for process in running:
        process.start()
    errors = [error for _ in running for error in results.get(timeout=PATIENCE)]
    for process in running:
        process.join()
    print(json.dumps({"errors": errors, "codes": [process.exitcode for process in running]}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), Path(sys.argv[5]))

"""Many processes at one metastore at once; prints what each of them got as JSON.

``python hammer.py URL PROCESSES ROUNDS COUNTER_FILE``. The metastore has the table default.t and waiting requests.
"""

from __future__ import annotations

import json
import multiprocessing
import sys
import time
from pathlib import Path
from typing import Any

from compactor.locking.lock_types import LockRequest, LockType
from compactor.metastore.metastore import open_metastore
from compactor.state.state_database import open_state
from tests.support.patience import PATIENCE

EXCLUSIVE = LockRequest(database="default", table="t", type=LockType.EXCLUSIVE)


def work(url: str, number: int, rounds: int, counter: Path, results: Any) -> None:
    metastore = open_metastore("default", url)
    if not metastore.dialect.layout.has_visibility:
        metastore.queue.set_extra_columns(open_state(url).kept_columns("default"))
    got: dict[str, list[int]] = {"txns": [], "write_ids": [], "locks": [], "claims": []}
    for _ in range(rounds):
        [txn] = metastore.transactions.open("u", f"h{number}")
        got["txns"].append(txn)
        got["write_ids"].append(metastore.write_ids.allocate(txn, "default", "t"))
        lock = metastore.locks.acquire(txn, [EXCLUSIVE], "u", f"h{number}")
        while not lock.is_acquired:
            time.sleep(0.1)
            lock = metastore.locks.check(lock.id)
        got["locks"].append(lock.id)
        counter.write_text(str(int(counter.read_text()) + 1))  # only safe under the exclusive lock
        metastore.transactions.commit(txn)
        entry = metastore.claims.claim(f"compactor-{number}", "test", pool_timeout_ms=0)
        got["claims"] += [entry.id] if entry is not None else []
    results.put(got)


def main(url: str, processes: int, rounds: int, counter: Path) -> None:
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    running = [
        context.Process(target=work, args=(url, number, rounds, counter, results)) for number in range(processes)
    ]
    for process in running:
        process.start()
    gathered = [results.get(timeout=PATIENCE) for _ in running]
    for process in running:
        process.join()
    print(json.dumps({key: sorted(i for got in gathered for i in got[key]) for key in gathered[0]}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))

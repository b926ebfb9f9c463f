"""Sixteen programs at each store, some of them killed or suspended beyond their time-out, and what they read judged."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from compactor.state.state_upgrade import init
from tests.storage.conftest import KINDS, Place
from tests.support import servers
from tests.support.history.operations import Operation, dead, recorded
from tests.support.history.programs import BATCH
from tests.support.history.table_rows import judged, overlapping
from tests.support.patience import PATIENCE

ROOT = Path(__file__).parents[2]
PROCESSES = 16
TORTURE = int(os.environ.get("TORTURE_SECONDS", "0"))  #: for each history
SECONDS = float(TORTURE or 20)
LIMIT = PATIENCE + SECONDS  #: on a busy machine a run goes on until it has something to say, at most so many seconds
SEED = os.environ.get("TORTURE_SEED") or (secrets.token_hex(4) if TORTURE else "1")
#: Seconds after which a program is forgotten: work is named in half of that or not at all, and a slow store takes longer.
TIMEOUT = {"s3": 12}
#: Seconds from one accident to the next, on average: programs live long enough for calls at a slow store to be answered.
PACE = {"local": "0.2", "s3": "4"}
#: What a program is told whose transaction others have ended.
LOST = ("heartbeat", "no longer protected", "timed out", "is not there: it was released")
#: Answered calls of each kind without which a history says too little.
ENOUGH = {
    "append": 12,
    "remove": 2,
    "count_up": 5,
    "put": 3,
    "replace": 2,
    "read": 12,
    "work": 3,
    "clean": 2,
    "keep": 2,
}


@pytest.fixture(scope="module")
def postgres() -> Iterator[tuple[str, servers.Rows]]:
    with servers.postgres() as server:
        url = server.make("histories", servers.hive_schema("postgresql", "4.0.0"))
        init(url).close()
        rows = servers.Rows(url)
        yield url, rows
        rows.close()


@pytest.fixture(params=("sqlite", "postgres"))
def database(request: pytest.FixtureRequest, tmp_path: Path, empty_metastore: Path) -> Iterator[str]:
    """The URL of an empty metastore."""
    if request.param == "sqlite":
        shutil.copyfile(empty_metastore, tmp_path / "metastore.db")
        yield f"sqlite:///{tmp_path / 'metastore.db'}"
        return
    url, rows = request.getfixturevalue("postgres")
    yield url
    rows.restore()


def configuration(path: Path, database: str, place: Place) -> Path:
    """Writes a compactor.toml whose warehouse is ``place``."""
    (path.parent / "memory").mkdir()
    settings = {
        "hive.txn.timeout": f"{TIMEOUT.get(place.kind, 4)}s",
        "hive.txn.opentxn.timeout": "1s",
        "compactor.lock.wait": "2s",
        "hive.lock.sleep.between.retries": "200ms",
        "compactor.forget.grace": "0s",
        "hive.compactor.delta.num.threshold": "3",
        "compactor.memory": str(path.parent / "memory"),
    }
    lines = ["[metastore.default]", f'url = "{database}"', f'warehouse = "{place.location}"', 'mode = "clean"']
    lines += ["[metastore.default.settings]", *(f'"{key}" = "{value}"' for key, value in settings.items())]
    for store, options in json.loads(place.stores.options.text).items():
        lines += [f"[storage.{store}]", *(f"{key} = {json.dumps(value)}" for key, value in options.items())]
    path.write_text("\n".join(lines))
    return path


def run(config: Path, place: Place, folder: Path) -> list[Operation]:
    """The history of one run of ``SECONDS`` and until there is enough of everything."""
    folder.mkdir()
    command = [sys.executable, "-m", "tests.support.history.program_run"]
    pace, timeout = PACE.get(place.kind, "1.5"), TIMEOUT.get(place.kind, 4)
    command += [str(config), place.location, str(folder), str(LIMIT), str(PROCESSES), SEED, pace, str(timeout)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with (folder / "said").open("w") as said:
        start = time.monotonic()
        running = subprocess.Popen(command, stdout=said, stderr=said, cwd=ROOT, env=environment, text=True)
        try:
            while running.poll() is None and time.monotonic() < start + LIMIT:
                time.sleep(0.5)
                if time.monotonic() > start + SECONDS and not missing(recorded(folder)):
                    (folder / "stop").touch()
                    break
            running.wait(PATIENCE)
        finally:
            running.kill()
            running.wait()
    said_last = (folder / "said").read_text()[-5000:]
    assert running.returncode == 0, f"seed {SEED}: {said_last}"
    return recorded(folder)


def missing(history: list[Operation]) -> dict[str, int]:
    """Returns the number of answered calls of each kind of which there are too few; among them those of programs that found
    themselves forgotten."""
    counts = Counter(operation.name for operation in history if operation.is_ok)
    counts["lost"] = sum(any(words in one.error for words in LOST) for one in history)
    return {name: counts[name] for name, least in (ENOUGH | {"lost": 1}).items() if counts[name] < least}


@pytest.mark.whole
@pytest.mark.parametrize("place", KINDS, indirect=True)
def test_whatever_happens_each_transaction_is_seen_whole_or_not_at_all(
    database: str, place: Place, tmp_path: Path
) -> None:
    """PROTOCOL 13, 14.1: a program that was suspended until it was forgotten writes nothing, and its work is swept."""
    config = configuration(tmp_path / "compactor.toml", database, place)
    history = run(config, place, tmp_path / "history")
    found = list(judged(history, BATCH))
    assert not found, "\n".join([f"seed {SEED}: {len(found)} anomalies", *map(str, found[:5])])
    assert dead(tmp_path / "history")
    assert overlapping(history) > 50
    errors = Counter(one.error.replace(place.location, "…")[:200] for one in history if not one.is_ok)
    assert not missing(history), errors.most_common(12)

"""Files and folders that are downloaded or made once and kept for all later runs."""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]
MAVEN_CACHE = ROOT / "build" / "cache" / "maven"


def made_once(cache: Path, name: str, source: Path, make: Callable[[Path], Path]) -> Path:
    """Returns what ``make`` made of ``source`` in the folder given to it; each source has its own name in ``cache``."""
    return kept_once(cache, f"{name}-{hashlib.sha256(source.read_bytes()).hexdigest()[:12]}", make)


def kept_once(cache: Path, name: str, make: Callable[[Path], Path]) -> Path:
    """Returns the folder or file ``name`` in ``cache``, which ``make`` made in the folder given to it.

    A caller that needs it while another one is making it waits, so that nothing is downloaded twice.
    """
    wanted = cache / name
    if not wanted.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with _alone(cache / f".{name}.lock"):
            if not wanted.exists():
                partial = Path(tempfile.mkdtemp(dir=cache))
                try:
                    make(partial).rename(wanted)
                finally:
                    shutil.rmtree(partial)
    return wanted


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    """Admits one process or thread to the block at a time; if a process is killed in it, the next one enters."""
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield

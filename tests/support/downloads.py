"""What is downloaded or made once and kept for all later runs."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path


def made_once(cache: Path, name: str, source: Path, make: Callable[[Path], Path]) -> Path:
    """What ``make`` made of ``source`` in the folder it was given; another source is another name in ``cache``."""
    wanted = cache / f"{name}-{hashlib.sha256(source.read_bytes()).hexdigest()[:12]}"
    if not wanted.is_dir():
        cache.mkdir(parents=True, exist_ok=True)
        # into a folder of its own first: another test run may be doing the same
        partial = Path(tempfile.mkdtemp(dir=cache))
        try:
            made = make(partial)
            with suppress(OSError):  # it is there: another run was faster
                made.rename(wanted)
            assert wanted.is_dir()
        finally:
            shutil.rmtree(partial)
    return wanted

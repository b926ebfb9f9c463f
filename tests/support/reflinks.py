"""A file system whose files share blocks, mounted from a file; only root may mount one."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def xfs(folder: Path, size: int) -> Iterator[Path]:
    """Yields the root of an empty XFS of ``size`` bytes, 300 MB or more, and unmounts it."""
    image, root = folder / "xfs.img", folder / "xfs"
    with image.open("wb") as file:
        file.truncate(size)
    root.mkdir()
    _run("mkfs.xfs", "-q", "-m", "reflink=1", str(image))
    _run("mount", "-o", "loop", str(image), str(root))
    try:
        yield root
    finally:
        _run("umount", str(root))
        image.unlink()


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"

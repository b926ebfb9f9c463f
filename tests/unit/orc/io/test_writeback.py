"""A hint to the kernel, on which nothing depends."""

from __future__ import annotations

import os
from pathlib import Path

from compactor.orc.io.writeback import begin_writeback


def test_the_kernel_accepts_the_hint_only_for_files(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"written")
    descriptor = os.open(path, os.O_WRONLY)
    try:
        assert begin_writeback(descriptor, 0, 7)
    finally:
        os.close(descriptor)
    assert not begin_writeback(descriptor, 0, 7)

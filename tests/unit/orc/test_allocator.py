"""Memory that one tiny file has used serves the next."""

from __future__ import annotations

import os
import resource
import subprocess
import sys

import pyarrow as pa
import pyarrow.orc as po
import pytest

from compactor.orc.allocator import keep_freed_memory

_TABLE = pa.table({f"c{number}": pa.array(range(10), pa.int64()) for number in range(8)})


def pages_for_ten_files() -> int:
    """How many pages the kernel gave."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(10):
        with po.ORCWriter(pa.BufferOutputStream(), compression="zlib", compression_block_size=1 << 18) as writer:
            writer.write(_TABLE)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


@pytest.mark.parametrize(("environment", "is_kept"), [({}, True), ({"MALLOC_TRIM_THRESHOLD_": "131072"}, False)])
def test_tiny_files_take_no_new_pages_unless_the_site_wants_it(environment: dict[str, str], is_kept: bool) -> None:
    told = subprocess.run([sys.executable, __file__], env=os.environ | environment, check=True, capture_output=True)
    first, then = (int(word) for word in told.stdout.split())
    assert first > 1000  # a megabyte and more for each
    assert (then < 100) == is_kept


if __name__ == "__main__":
    found = pages_for_ten_files()
    keep_freed_memory()
    pages_for_ten_files()
    sys.stdout.write(f"{found} {pages_for_ten_files()}\n")

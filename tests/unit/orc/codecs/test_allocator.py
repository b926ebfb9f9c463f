"""Memory used for one tiny file is reused for the next."""

from __future__ import annotations

import ctypes
import os
import resource
import subprocess
import sys

import pyarrow as pa
import pyarrow.orc as po
import pytest

from compactor.orc.codecs.allocator import LARGE_BYTES, keep_freed_memory

_TABLE = pa.table({f"c{number}": pa.array(range(10), pa.int64()) for number in range(8)})
#: Far more than a process has free at its start, so that more must be requested from the kernel, in or beside the heap.
_BLOCK = LARGE_BYTES // 2
_FIGURES = ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")


class _Figures(ctypes.Structure):
    """The result of mallinfo2(3)."""

    _fields_ = [(name, ctypes.c_size_t) for name in _FIGURES]


def pages_for_ten_files() -> int:
    """Returns the number of pages that the kernel provided."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(10):
        with po.ORCWriter(pa.BufferOutputStream(), compression="zlib", compression_block_size=1 << 18) as writer:
            writer.write(_TABLE)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


def mapped_for_a_block() -> int:
    """Returns the bytes mapped beside the heap for a block; they return to the kernel when it is freed."""
    library = ctypes.CDLL(None)
    library.mallinfo2.restype, library.malloc.restype = _Figures, ctypes.c_void_p
    before = library.mallinfo2().hblkhd
    block = ctypes.c_void_p(library.malloc(ctypes.c_size_t(_BLOCK)))
    mapped = int(library.mallinfo2().hblkhd - before)
    library.free(block)
    return mapped


def measured(what: str, **environment: str) -> list[int]:
    """Returns the output of a separate process with a fresh heap."""
    plain = {key: value for key, value in os.environ.items() if not key.startswith("MALLOC_")}
    command = [sys.executable, __file__, what]
    done = subprocess.run(command, env=plain | environment, check=True, capture_output=True)
    return [int(word) for word in done.stdout.split()]


def test_tiny_files_need_no_new_pages() -> None:
    first, then = measured("files")
    assert first > 1000  # megabytes
    assert then < 100


@pytest.mark.parametrize(
    ("environment", "is_mapped"),
    [({}, False), ({"MALLOC_TRIM_THRESHOLD_": "131072"}, True), ({"MALLOC_MMAP_THRESHOLD_": "131072"}, True)],
)
def test_the_environment_takes_precedence(environment: dict[str, str], is_mapped: bool) -> None:
    """Not tested with files: whether their memory can be returned depends on what else is at the heap's end."""
    (mapped,) = measured("block", **environment)
    assert (mapped >= _BLOCK) == is_mapped


if __name__ == "__main__":
    if sys.argv[1] == "files":
        found = pages_for_ten_files()
        keep_freed_memory()
        pages_for_ten_files()
        sys.stdout.write(f"{found} {pages_for_ten_files()}\n")
    else:
        keep_freed_memory()
        sys.stdout.write(f"{mapped_for_a_block()}\n")

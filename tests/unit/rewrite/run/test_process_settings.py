"""A process that may have so much memory and no more; limits of the tests' own process stay as they are."""

from __future__ import annotations

import ctypes
import gc
import os
import resource
import subprocess
import sys
from contextlib import suppress

import pyarrow as pa
import pyarrow.orc as po
import pytest

from compactor.rewrite.run.process_settings import LARGE_BYTES, collecting_rarely, keep_freed_memory

PROGRAM = """
import resource
from compactor.rewrite.run.process_settings import limit_memory, memory_limit
limit_memory({most})
print(memory_limit(), resource.getrlimit(resource.RLIMIT_CORE)[0] == 0)
try:
    print(len(bytearray({wanted} << 20)) >> 20)
except MemoryError:
    print("none left")
"""
#: Makes pyarrow scan, which needs a scalar, and prints whether pandas was imported.
SCAN = "import sys; from pyarrow import dataset; sys.stdout.write(str('pandas' in sys.modules))"
EXCLUDED = "from compactor.rewrite.run.process_settings import exclude_pandas; exclude_pandas(); "
_TABLE = pa.table({f"c{number}": pa.array(range(10), pa.int64()) for number in range(8)})
#: Far more than a process has free at its start, so that more must be requested from the kernel, in or beside the heap.
_BLOCK = LARGE_BYTES // 2
_FIGURES = ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")


def said(most: str, wanted: int, before: str = "") -> list[str]:
    program = before + PROGRAM.format(most=most, wanted=wanted)
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split(
        "\n"
    )


@pytest.mark.parametrize(("wanted", "answer"), [(100, "100"), (600, "none left")])
def test_no_more_is_given_than_the_limit(wanted: int, answer: str) -> None:
    assert said("500 << 20", wanted)[:2] == ["524288000 True", answer]


def test_zero_is_no_limit() -> None:
    assert said("0", 600)[0].startswith("0 ")
    assert said("0", 600)[1] == "600"


def test_a_limit_of_the_system_is_not_exceeded() -> None:
    before = "import resource; resource.setrlimit(resource.RLIMIT_DATA, (300 << 20, 300 << 20))"
    assert said("500 << 20", 400, before)[:2] == ["314572800 True", "none left"]


def test_cycles_are_looked_for_rarely_until_the_block_ends() -> None:
    before = gc.get_threshold()
    with suppress(ValueError), collecting_rarely():
        assert gc.get_threshold()[0] > 10 * before[0]
        raise ValueError
    assert gc.get_threshold() == before


@pytest.mark.parametrize(("before", "is_there"), [("", True), (EXCLUDED, False)])
def test_pyarrow_imports_pandas_unless_it_is_excluded(before: str, is_there: bool) -> None:
    done = subprocess.run([sys.executable, "-c", before + SCAN], check=True, capture_output=True, text=True)
    assert done.stdout == str(is_there)


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

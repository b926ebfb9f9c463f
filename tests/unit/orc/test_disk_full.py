"""A disk that fills while rows are encoded: an error that names the file, and never the end of the process."""

from __future__ import annotations

import multiprocessing
import resource
import signal
from pathlib import Path

import pyarrow as pa

from compactor.errors import StorageError
from compactor.orc import arrow_codec
from compactor.orc.tail import empty_tail
from compactor.orc.types import parse_hive_type


def _fill(path: str) -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
    types = parse_hive_type("struct<a:bigint>")
    try:
        with arrow_codec.writer(path, like=empty_tail(types), types=types) as writer:
            for start in range(0, 2_000_000, 50_000):
                numbers = [n * 7919 % 1_000_003 for n in range(start, start + 50_000)]
                writer.write(pa.record_batch([pa.array(numbers, pa.int64())], schema=arrow_codec.schema(types)))
    except StorageError as error:
        raise SystemExit(7 if path in str(error) else 8) from None
    raise SystemExit(9)


def test_a_full_disk_is_an_error_and_not_the_end(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=_fill, args=(str(tmp_path / "file.orc"),))
    process.start()
    process.join(60)
    assert process.exitcode == 7

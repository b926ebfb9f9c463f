"""The cost of reading values back: ``python benchmarks/reading_back.py [rows]``.

A major compaction of three deltas, with deletes in every stripe (all rows are decoded and encoded) and without (all stripes
are copied), runs in this process in turn with and without the comparison of values. The ratio is that of the processor's
time, the median of several pairs.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import median
from unittest.mock import patch

from benchmarks.parts import contents
from benchmarks.parts.peak import plan_of, rewrite_and_discard
from benchmarks.parts.report import Row, conclude, progress
from compactor.base.ids import WriteId
from compactor.orc import reencode
from compactor.orc.format.compression import Compression
from compactor.orc.read_back import ValueDigest
from compactor.rewrite.run.runner import InProcessRunner
from tests.support.many import row_type

DELTAS, PAIRS = 3, 7
SHORT = 3_000  #: rows of which a measurement does several compactions
TIMES = 1.25  #: bar of a re-encoding
TIMES_OF_COPY = 1.02


def seconds_of(location: Path, times: int, *, compared: bool) -> float:
    """Returns the processor's time of a compaction that is thrown away."""
    with ExitStack() as stack:
        if not compared:
            stack.enter_context(patch.object(reencode, "check_values"))
            stack.enter_context(patch.object(ValueDigest, "add"))
        begun = time.process_time()
        for _ in range(times):
            work = plan_of(str(location), row_type(contents.ROWS), DELTAS + 1)
            rewrite_and_discard(work, InProcessRunner(threads=1))
        return (time.process_time() - begun) / times


def ratio_of(work: str, location: Path, bar: float, rows: int) -> Row:
    """Returns the median of several pairs of measurements."""
    progress(work)
    seconds = partial(seconds_of, location, max(1, SHORT // rows))
    seconds(compared=True)
    pairs = [(seconds(compared=True), seconds(compared=False)) for _ in range(PAIRS)]
    ratio, compared, plain = median((compared / plain, compared, plain) for compared, plain in pairs)
    return Row(work=work, bar=bar, measured=ratio, details={"ms": 1000 * compared, "ms without": 1000 * plain})


def table(location: Path, codec: Compression, rows: int, *, deleted: bool) -> Path:
    """Writes a table and returns its place."""
    with patch.object(contents, "write_rows", partial(contents.write_rows, compression=codec)):
        for number in range(1, DELTAS + 1):
            contents.rows(rows)(str(location), WriteId(number))
    if deleted:
        scattered = contents.deletes(contents.ROWS, max(DELTAS, rows // 30), range(1, DELTAS + 1), rows)
        scattered(str(location), WriteId(DELTAS + 1))
    return location


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", type=int, nargs="?", default=60_000, help="of each delta")
    rows: int = parser.parse_args().rows
    with tempfile.TemporaryDirectory() as name:
        measured = []
        for codec in (Compression.ZLIB, Compression.SNAPPY, Compression.ZSTD, Compression.NONE):
            location = table(Path(name, codec.name), codec, rows, deleted=True)
            measured.append(ratio_of(f"{codec.name}, deletes in every stripe", location, TIMES, rows))
        tiny = table(Path(name, "tiny"), Compression.ZLIB, 100, deleted=True)
        measured.append(ratio_of("ZLIB, deltas of 100 rows", tiny, TIMES, 100))
        copied = table(Path(name, "copied"), Compression.ZLIB, rows, deleted=False)
        measured.append(ratio_of("ZLIB, no deletes, all stripes copied", copied, TIMES_OF_COPY, rows))
    conclude(measured, "reading_back")


if __name__ == "__main__":
    main()

"""The checksum of parts, in memory and of files, equals that of the whole."""

from __future__ import annotations

import os
import threading
import zlib
from pathlib import Path

import pytest

from compactor.base.errors import BadFile
from compactor.orc.io.running_checksum import PIECE, RunningChecksum
from compactor.orc.io.source import BytesSource, LocalSource
from tests.support.patience import PATIENCE


def _threads() -> int:
    return sum(thread.name.startswith("checksum") for thread in threading.enumerate())


def test_parts_in_their_order(tmp_path: Path) -> None:
    data = os.urandom(3 * PIECE + 17)
    (tmp_path / "f").write_bytes(data)
    running = RunningChecksum()
    running.add(b"first")
    assert _threads() == 0
    with LocalSource(tmp_path / "f") as source:
        running.add_range(source, 3, len(data) - 3)
        running.add(b"between")
        for _ in range(200):  # more parts than may wait
            running.add_range(source, 0, 10)
        wanted = zlib.crc32(b"first" + data[3:] + b"between" + data[:10] * 200)
        assert running.value() == wanted
    assert _threads() == 0


def test_a_range_beyond_the_end_is_refused() -> None:
    running = RunningChecksum()
    running.add_range(BytesSource(b"short", "<five>"), 2, 100)
    with pytest.raises(BadFile, match="<five>"):
        running.value()
    running.close()
    assert _threads() == 0


def test_an_abandoned_checksum_stops_reading() -> None:
    entered, go = threading.Event(), threading.Event()

    class Slow(BytesSource):
        reads = 0

        def read(self, offset: int, length: int) -> bytes:
            self.reads += 1
            entered.set()
            assert go.wait(PATIENCE)
            return super().read(offset, length)

    source = Slow(bytes(10 * PIECE))
    running = RunningChecksum()
    running.add_range(source, 0, 10 * PIECE)
    running.add_range(source, 0, 10 * PIECE)
    assert entered.wait(PATIENCE)
    closing = threading.Thread(target=running.close)
    closing.start()
    while not running.is_closed:
        pass
    go.set()
    closing.join(PATIENCE)
    assert (source.reads, _threads()) == (1, 0)

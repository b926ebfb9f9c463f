"""Lengths and checksums of written files."""

from __future__ import annotations

import zlib
from pathlib import Path

import pytest

from compactor.rewrite.insert_only.output_file import CountingSink


def test_written_bytes_are_counted(tmp_path: Path) -> None:
    with CountingSink(str(tmp_path / "f")) as out:
        out.write(b"abc")
        out.write(b"de")
    assert (tmp_path / "f").read_bytes() == b"abcde"
    assert (out.length, out.crc32) == (5, zlib.crc32(b"abcde"))


def test_a_file_that_failed_is_removed(tmp_path: Path) -> None:
    with pytest.raises(TypeError), CountingSink(str(tmp_path / "f")) as out:
        out.write(None)  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []

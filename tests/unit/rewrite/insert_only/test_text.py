"""Concatenating lines."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compactor.orc.io.source import BytesSource
from compactor.rewrite.insert_only import text as insert_only_text
from compactor.rewrite.insert_only.text import Lines


def hadoop_lines(data: bytes) -> list[bytes]:
    """Returns the lines of Hadoop's LineReader, found byte by byte."""
    found: list[bytes] = []
    line = bytearray()
    place = 0
    is_open = False
    while place < len(data):
        byte = data[place : place + 1]
        place += 1
        if byte not in b"\r\n":
            line += byte
            is_open = True
            continue
        if byte == b"\r" and data[place : place + 1] == b"\n":
            place += 1
        found.append(bytes(line))
        line.clear()
        is_open = False
    return [*found, bytes(line)] if is_open else found


CONTENT = st.lists(st.sampled_from([b"a", b"\x01", b"\n", b"\r", b"\r\n", "ä".encode()]), max_size=8).map(b"".join)


@given(files=st.lists(CONTENT, max_size=5), full=st.booleans())
def test_all_lines_of_all_files_and_no_others(
    files: list[bytes], full: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("text") / "rows"
    made = insert_only_text.write([BytesSource(data) for data in files], str(path), full=full)
    wanted = [line for data in files for line in hadoop_lines(data)]
    assert hadoop_lines(path.read_bytes() if made else b"") == wanted
    assert sum(file.rows for file in made) == len(wanted)


@given(data=CONTENT, cut=st.integers(0, 20))
def test_lines_are_counted_over_parts(data: bytes, cut: int) -> None:
    lines = Lines()
    for part in (data[:cut], data[cut:]):
        lines.add(part)
    assert lines.count == len(hadoop_lines(data))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("000000_0.gz", gzip.compress(b"a\n", mtime=0)),
        ("000000_0.zst", b"a\n"),
        ("000000_0", gzip.compress(b"a\n", mtime=0)),
        ("000000_0", b"\xef\xbb\xbfa\n"),
        ("000000_0", b"PAR1\0\0"),
        ("000000_0", b"ORC\0\0"),
    ],
)
def test_files_that_are_not_plain_text(name: str, content: bytes) -> None:
    assert not insert_only_text.is_plain_text(BytesSource(content, f"/t/{name}"))


def test_a_line_may_begin_with_any_word(tmp_path: Path) -> None:
    sources = [BytesSource(b"ORC,1\n", "/t/data.csv"), BytesSource(b"SEQ,2", "/t/000000_0")]
    assert all(map(insert_only_text.is_plain_text, sources))
    (made,) = insert_only_text.write(sources, str(tmp_path / "rows"), full=True)
    assert (tmp_path / "rows").read_bytes() == b"ORC,1\nSEQ,2\n"
    assert made.rows == 2

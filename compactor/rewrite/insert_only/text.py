"""Concatenates text files of an insert-only table: the same lines in fewer files.

Lines are those of Hadoop's ``LineReader``: they end in ``\\n``, ``\\r`` or ``\\r\\n``. The last line of a file may lack its
end.
"""

from __future__ import annotations

from collections.abc import Sequence

from compactor.base.errors import VerificationFailed
from compactor.orc.io.source import LocalSource, Source, chunks, crc32
from compactor.rewrite.insert_only.output_file import CountingSink, FinishedFile

_ENDINGS = ("txt", "csv", "tsv", "psv", "json", "jsonl", "log", "dat", "data")
_BOM = b"\xef\xbb\xbf"
_BINARY = (b"ORC", b"PAR1", b"Obj\x01", b"SEQ", b"RCF")
_GZIP = b"\x1f\x8b"


def write(sources: Sequence[Source], path: str, *, full: bool) -> list[FinishedFile]:
    """Writes all lines of ``sources``, in their order, to one file. Writes no file if there is no line.

    Raises:
        VerificationFailed: the file does not hold as many lines as its inputs.
    """
    expected = 0
    if not any(source.length for source in sources):
        return []
    with CountingSink(path) as out:
        for source in sources:
            lines = Lines()
            for data in chunks(source, 0, source.length):
                lines.add(data)
                out.write(data)
            expected += lines.count
            if not lines.ends_in_newline:
                out.write(b"\n")  # also after \r: both together end one line
    with LocalSource(path) as written:
        count = count_lines(written)
        if count != expected or (full and crc32(written, 0, written.length) != out.crc32):
            raise VerificationFailed(
                f"{path}: {count} lines were written, the inputs have {expected}; nothing was changed, please report this"
            )
    return [FinishedFile(path=path, rows=expected, length=out.length, crc32=out.crc32, bytes_copied=out.length)]


def count_lines(source: Source) -> int:
    """Counts the lines that a reader finds."""
    lines = Lines()
    for data in chunks(source, 0, source.length):
        lines.add(data)
    return lines.count


class Lines:
    """Counts lines in bytes that arrive in parts."""

    def __init__(self) -> None:
        self._ends = 0
        self._last = b""

    def add(self, data: bytes) -> None:
        if data:
            self._ends += data.count(b"\n") + data.count(b"\r") - data.count(b"\r\n")
            self._ends -= self._last == b"\r" and data[:1] == b"\n"
            self._last = data[-1:]

    @property
    def count(self) -> int:
        return self._ends + (self._last not in (b"", b"\n", b"\r"))

    @property
    def ends_in_newline(self) -> bool:
        """True if the next file's lines may follow directly. Also true without any bytes."""
        return self._last in (b"", b"\n")


def is_plain_text(source: Source) -> bool:
    """Returns true if the file consists of uncompressed lines without a byte order mark.

    Readers skip such a mark only at the start of a file.
    """
    _, dot, ending = source.name.rpartition("/")[2].rpartition(".")
    if dot and ending.lower() not in _ENDINGS:
        return False
    head = source.read(0, min(4, source.length))
    return not head.startswith((_BOM, _GZIP)) and not (head.startswith(_BINARY) and _looks_binary(source))


def _looks_binary(source: Source) -> bool:
    """Returns true if the file contains zero bytes, unlike a text that begins like another format."""
    return b"\0" in source.read(0, min(4096, source.length))

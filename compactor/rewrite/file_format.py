"""The file formats of insert-only tables that can be put together without loss, and why others are left alone."""

from __future__ import annotations

import enum
from collections.abc import Mapping

from compactor.errors import NotSupported


class FileFormat(enum.Enum):
    """How the files of an insert-only table are put together."""

    ORC = "ORC"  #: stripes are copied, small neighbours re-encoded
    PARQUET = "Parquet"  #: row groups are copied
    TEXT = "text"  #: bytes one after another


_BY_INPUT = {
    "org.apache.hadoop.hive.ql.io.orc.OrcInputFormat": FileFormat.ORC,
    "org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat": FileFormat.PARQUET,
    "org.apache.hadoop.mapred.TextInputFormat": FileFormat.TEXT,
}
_LINES_LEFT_OUT = ("skip.header.line.count", "skip.footer.line.count")
_DELIMITERS = ("line.delim", "textinputformat.record.delimiter")


def file_format(entity: str, input_format: str | None, parameters: Mapping[str, str]) -> FileFormat:
    """The format of a table or partition.

    Args:
        entity: for messages.
        parameters: of the table, the partition and the serde together.

    Raises:
        NotSupported: files of this format, or under these parameters, cannot be put together without loss.
    """
    found = _BY_INPUT.get(input_format or "")
    if found is None:
        raise NotSupported(
            f"{entity}: files of an insert-only table are put together in ORC, Parquet and text; those of {input_format} "
            "cannot be without decoding their rows; leave the table to Hive"
        )
    if found is FileFormat.TEXT:
        _plain_lines(entity, parameters)
    return found


def _plain_lines(entity: str, parameters: Mapping[str, str]) -> None:
    given = {key.lower(): value for key, value in parameters.items()}
    for key in _LINES_LEFT_OUT:
        if given.get(key, "0").strip() not in ("", "0"):
            raise NotSupported(
                f"{entity}: {key} is {given[key]}, lines that readers leave out of every file; one file of all would show "
                "those of the others as rows; leave the table to Hive"
            )
    for key in _DELIMITERS:
        if given.get(key, "\n") not in ("", "\n", "\\n", "10"):
            raise NotSupported(f"{entity}: {key} is {given[key]!r}, expected lines that end in \\n; leave it to Hive")
    encoding = given.get("serialization.encoding", "").upper()
    if encoding.startswith(("UTF-16", "UTF-32", "UTF16", "UTF32", "UCS")):
        raise NotSupported(f"{entity}: serialization.encoding is {encoding}, whose files are no lines of bytes")

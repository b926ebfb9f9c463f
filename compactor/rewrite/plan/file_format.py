"""The format of an insert-only table's files, by the properties of the table or partition."""

from __future__ import annotations

import enum
from collections.abc import Mapping


class FileFormat(enum.Enum):
    """The ways of combining the files of an insert-only table."""

    ORC = "ORC"  #: stripes are copied, small neighbours re-encoded
    PARQUET = "Parquet"  #: row groups are copied
    TEXT = "text"  #: bytes are concatenated
    WHOLE = "any"  #: every file stays as it is; all are in one directory


_BY_INPUT = {
    "org.apache.hadoop.hive.ql.io.orc.OrcInputFormat": FileFormat.ORC,
    "org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat": FileFormat.PARQUET,
    "org.apache.hadoop.mapred.TextInputFormat": FileFormat.TEXT,
}
_LINES_LEFT_OUT = ("skip.header.line.count", "skip.footer.line.count")
_DELIMITERS = ("line.delim", "textinputformat.record.delimiter")
_WIDE = ("UTF-16", "UTF-32", "UTF16", "UTF32", "UCS")


def file_format(input_format: str | None, parameters: Mapping[str, str]) -> FileFormat:
    """Returns the format of a table or partition.

    ``parameters`` merge those of table, partition and serde.

    Files that cannot be combined without decoding rows stay as they are, so every format is accepted.
    """
    by_input = _BY_INPUT.get(input_format or "", FileFormat.WHOLE)
    return FileFormat.WHOLE if by_input is FileFormat.TEXT and not _is_all_lines(parameters) else by_input


def _is_all_lines(parameters: Mapping[str, str]) -> bool:
    """Returns true if files consist only of lines that readers show, and lines end in ``\\n``."""
    lower_case = {key.lower(): value for key, value in parameters.items()}
    return (
        all(lower_case.get(key, "0").strip() in ("", "0") for key in _LINES_LEFT_OUT)
        and all(lower_case.get(key, "\n") in ("", "\n", "\\n", "10") for key in _DELIMITERS)
        and not lower_case.get("serialization.encoding", "").upper().startswith(_WIDE)
    )

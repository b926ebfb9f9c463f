"""The class of ORC files that a request asks for by ``tblprops.orc.*`` (Hive's WITH OVERWRITE TBLPROPERTIES)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from compactor.errors import BadSetting

_COMPRESS, _STRIDE = "orc.compress", "orc.row.index.stride"
_CODECS = ("NONE", "ZLIB", "SNAPPY", "LZ4", "ZSTD")
_SHORTEST = 1000  #: rows between two entries of a row index, as in Hive's writer
_LONGEST = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputClass:
    """The compression, by its name in ORC's specification, and the row index stride of what is written; None: as in the
    files that are read. Stripes of another class are re-encoded."""

    compression: str | None = None
    row_index_stride: int | None = None

    @classmethod
    def of(cls, table_overrides: Mapping[str, str]) -> OutputClass | None:
        """Returns the class that a request's ``tblprops``, without that prefix, ask for; None if for none."""
        found = {key.lower(): text.strip() for key, text in table_overrides.items()}
        compression, stride = found.get(_COMPRESS), found.get(_STRIDE)
        if compression is None and stride is None:
            return None
        return cls(
            compression=None if compression is None else compression.upper(),
            row_index_stride=None if stride is None else int(stride),
        )

    def __str__(self) -> str:
        pairs = ((_COMPRESS, self.compression), (_STRIDE, self.row_index_stride))
        return ", ".join(f"{key} = {value}" for key, value in pairs if value is not None)


def refusal(key: str, text: str) -> str | None:
    """Returns the reason why ``tblprops.<key> = <text>`` is not accepted; None if it is."""
    try:
        _check(key.lower(), text.strip())
    except BadSetting as error:
        return str(error)
    return None


def _check(key: str, text: str) -> None:
    if key == _COMPRESS:
        if text.upper() not in _CODECS:
            raise BadSetting(f"found {text!r}, expected one of {', '.join(_CODECS)}")
    elif key == _STRIDE:
        if not (text.isascii() and text.isdigit() and len(text) < 11 and _SHORTEST <= int(text) <= _LONGEST):
            raise BadSetting(f"found {text!r}, expected a number of rows, {_SHORTEST} to {_LONGEST}")
    else:
        raise BadSetting(
            f"a compaction cannot change it, only {_COMPRESS} and {_STRIDE}; for other writers set it as a property of the "
            "table"
        )

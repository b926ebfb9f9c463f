"""The class of ORC files that a request wants, from ``tblprops.orc.*``.

Hive's statement is COMPACT WITH OVERWRITE TBLPROPERTIES.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields
from typing import Any

from compactor.base.errors import BadSetting

_CODECS = ("NONE", "ZLIB", "SNAPPY", "LZ4", "ZSTD")
UNKNOWN_TO_ORC_1_5 = frozenset({"ZSTD", "BROTLI"})  #: and therefore to Hive 3.1
_BLOCK = 64 * 1024  #: the encoding library takes only multiples of it


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputClass:
    """The properties of the output; None keeps that of the input files.

    Stripes of another class are re-encoded.

    ``compression`` is the codec's name in ORC's specification. ``row_index_stride`` is in rows. ``block_bytes`` is the
    maximum size of a compressed block, ``stripe_bytes`` the size at which a stripe ends. ``bloom_filters`` are the names
    of the columns that get one (``*``: all that may), ``false_positives`` the share of values that a filter passes
    wrongly.
    """

    compression: str | None = None
    row_index_stride: int | None = None
    block_bytes: int | None = None
    stripe_bytes: int | None = None
    bloom_filters: tuple[str, ...] | None = None
    false_positives: float | None = None
    avoids: frozenset[str] = frozenset()  #: codecs that a reader of the table does not know; see ``UNKNOWN_TO_ORC_1_5``

    @classmethod
    def from_request(cls, table_overrides: Mapping[str, str]) -> OutputClass | None:
        """Returns the class from a request's ``tblprops`` (keys without that prefix); None without any."""
        texts = {key.lower(): text.strip() for key, text in table_overrides.items()}
        values = {name: parse_text(texts[key]) for key, (name, parse_text) in _PROPERTIES.items() if key in texts}
        return cls(**values) if values else None

    @classmethod
    def from_table(cls, parameters: Mapping[str, str]) -> OutputClass:
        """Returns the class of new files of a table with these properties; bad values are skipped."""
        values: dict[str, Any] = {}
        for key, text in parameters.items():
            if (property_ := _PROPERTIES.get(key.lower())) is not None:
                with suppress(BadSetting):
                    values[property_[0]] = property_[1](text.strip())
        return cls(**values)

    @property
    def is_of_every_stripe(self) -> bool:
        """True if a property is set that files do not record, so that every stripe is re-encoded."""
        return any(value is not None for value in (self.stripe_bytes, self.bloom_filters, self.false_positives))

    @property
    def is_for_orc_1_5(self) -> bool:
        """True if ORC Java 1.5 reads the table."""
        return self.avoids >= UNKNOWN_TO_ORC_1_5

    def __str__(self) -> str:
        values = {name: getattr(self, name) for name in (field.name for field in fields(self))}
        return ", ".join(
            f"{key} = {','.join(value) if isinstance(value, tuple) else value}"
            for key, (name, _) in _PROPERTIES.items()
            if (value := values[name]) is not None
        )


def refused_by_orc_1_5(compression: str | None) -> str | None:
    """Returns why tables in a metastore of Hive 3.1 cannot have this ``orc.compress``; None if they can."""
    if compression is None or compression.upper() not in UNKNOWN_TO_ORC_1_5:
        return None
    return (
        f"orc.compress = {compression}: Hive 3.1, whose metastore this is, reads files by ORC 1.5, which does not know this "
        "codec; expected NONE, ZLIB, SNAPPY or LZ4"
    )


def refusal(key: str, text: str) -> str | None:
    """Returns why ``tblprops.<key> = <text>`` is not accepted; None if it is."""
    if key.lower() not in _PROPERTIES:
        *most, last = _PROPERTIES
        return (
            f"a compaction cannot change it, only {', '.join(most)} and {last}; for other writers set it as a property of "
            "the table"
        )
    try:
        _PROPERTIES[key.lower()][1](text.strip())
    except BadSetting as error:
        return str(error)
    return None


def _parse_codec(text: str) -> str:
    if text.upper() not in _CODECS:
        raise BadSetting(f"found {text!r}, expected one of {', '.join(_CODECS)}")
    return text.upper()


def _number_parser(unit: str, least: int, most: int, multiple_of: int = 1) -> Callable[[str], int]:
    """Returns a parser of whole numbers from ``least`` to ``most``."""

    def parse_number(text: str) -> int:
        number = int(text) if text.isascii() and text.isdigit() and len(text) < 11 else -1
        if not least <= number <= most or number % multiple_of:
            multiple = f", a multiple of {multiple_of}" if multiple_of > 1 else ""
            raise BadSetting(f"found {text!r}, expected a number of {unit}, {least} to {most}{multiple}")
        return number

    return parse_number


def _parse_columns(text: str) -> tuple[str, ...]:
    names = tuple(name.strip().lower() for name in text.split(","))
    if not all(names):
        raise BadSetting(f"found {text!r}, expected names of columns separated by commas, or *")
    return tuple(dict.fromkeys(names))


def _parse_share(text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = 0.0
    if not 0.0001 <= share <= 0.5:  # also refuses NaN
        raise BadSetting(f"found {text!r}, expected a share of values, 0.0001 to 0.5")
    return share


#: The field that each property sets, and the function that reads its text.
_PROPERTIES: Mapping[str, tuple[str, Callable[[str], Any]]] = {
    "orc.compress": ("compression", _parse_codec),
    "orc.compress.size": ("block_bytes", _number_parser("bytes", _BLOCK, 64 * _BLOCK, _BLOCK)),
    "orc.row.index.stride": ("row_index_stride", _number_parser("rows", 1000, 2**31 - 1)),  # as in Hive's writer
    "orc.stripe.size": ("stripe_bytes", _number_parser("bytes", 2**20, 2**28)),
    "orc.bloom.filter.columns": ("bloom_filters", _parse_columns),
    "orc.bloom.filter.fpp": ("false_positives", _parse_share),
}

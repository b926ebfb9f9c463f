"""Limits for the contents of one file, whose footer is untrusted input.

Anybody who may write into a table's directory can write footers. Their lengths and numbers are compared with these limits
before memory is allocated for them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

from compactor.base.errors import BadFile

FOOTER_BYTES: Final = "compactor.file.footer.bytes"
STRIPES: Final = "compactor.file.stripes"
COLUMNS: Final = "compactor.file.columns"
DEPTH: Final = "compactor.file.depth"
STRIPE_BYTES: Final = "compactor.stripe.bytes"
#: Least bytes of a footer for each part in it (a column's statistics, a stripe, a number). Real writers need more. In memory
#: a part takes a few hundred bytes, however short it is in the file.
BYTES_OF_PART = 16


class _IntegerSettings(Protocol):
    def integer(self, key: str) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class FileLimits:
    """The limits of one file; sizes are decompressed bytes.

    ``footer_bytes`` limits one footer, index or statistics, ``stripe_bytes`` the streams of a stripe. ``stripes`` counts an
    ORC file's stripes or a Parquet file's row groups.
    """

    footer_bytes: int = 64 << 20
    stripes: int = 100_000
    columns: int = 50_000
    depth: int = 100
    stripe_bytes: int = 8 << 30

    @classmethod
    def from_settings(cls, settings: _IntegerSettings) -> FileLimits:
        """Returns the limits of a site."""
        return cls(
            footer_bytes=settings.integer(FOOTER_BYTES),
            stripes=settings.integer(STRIPES),
            columns=settings.integer(COLUMNS),
            depth=settings.integer(DEPTH),
            stripe_bytes=settings.integer(STRIPE_BYTES),
        )

    @property
    def parts(self) -> int:
        """The number of parts of any kind in one footer, index or statistics."""
        return max(1, self.footer_bytes // BYTES_OF_PART)

    def check_stripes(self, name: str, count: int, what: str = "stripes") -> None:
        """Raises ``BadFile`` if the file ``name`` has too many stripes."""
        if count > self.stripes:
            raise self.too_many_stripes(name, count, what)

    def check_columns(self, name: str, count: int) -> None:
        """Raises ``BadFile`` if the file ``name`` has too many columns."""
        if count > self.columns:
            raise self.too_many_columns(name, count)

    def too_many_stripes(self, name: str, count: int, what: str = "stripes") -> BadFile:
        """Returns the error for the file ``name``, with at least ``count`` stripes."""
        return beyond(name, f"has {count} {what} or more", self.stripes, STRIPES)

    def too_many_columns(self, name: str, count: int) -> BadFile:
        """Returns the error for the file ``name``, with at least ``count`` columns."""
        return beyond(name, f"has {count} columns or more, nested ones included", self.columns, COLUMNS)

    def too_long_stripe(self, name: str, size: int) -> BadFile:
        """Returns the error for the stripe ``name`` with at least ``size`` decompressed bytes."""
        return beyond(name, f"its streams have {size} bytes or more", self.stripe_bytes, STRIPE_BYTES)

    def too_many_parts(self, name: str, part: str, count: int) -> BadFile:
        """Returns the error for a footer, index or statistics of file ``name`` with ``count`` parts or more."""
        what = f"its {part} has {count} parts or more, most of them empty"
        return beyond(name, what, self.parts, FOOTER_BYTES, f"one for each {BYTES_OF_PART} bytes of ")


def too_deep(name: str, depth: int, limit: int) -> BadFile:
    """Returns the error for the file ``name`` whose types are nested ``depth`` deep."""
    return beyond(name, f"its types are nested {depth} deep", limit, DEPTH)


#: For files that were written here, from inputs that were within their limits.
UNLIMITED = FileLimits(footer_bytes=1 << 62, stripes=1 << 62, columns=1 << 62, depth=1 << 62, stripe_bytes=1 << 62)


def beyond(name: str, excess: str, limit: int, key: str, share: str = "") -> BadFile:
    """Returns the error for the file ``name`` that exceeds ``limit``; ``excess`` says by what."""
    return BadFile(
        f"file {name}: {excess}, at most {limit} are read ({share}{key}); find out who wrote it, and move it away or raise "
        f"{key}"
    )

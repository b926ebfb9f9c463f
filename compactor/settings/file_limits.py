"""The most that one file may hold, however much it says that it does: what a file says is a stranger's input.

Whoever may write in a table's directory writes footers too. Lengths and numbers in them are compared with these limits
before memory is taken for what they describe.
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
#: Bytes of a footer for each part in it (a column's statistics, a stripe, a number). Those of real writers have more, and a
#: part takes a few hundred bytes of memory, however short it is.
BYTES_OF_PART = 16


class _Settings(Protocol):
    def integer(self, key: str) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class FileLimits:
    """``footer_bytes`` are those of one footer, index or statistics, decompressed; ``stripes`` are an ORC file's stripes or
    a Parquet file's row groups; ``stripe_bytes`` those of a stripe's streams, decompressed."""

    footer_bytes: int = 64 << 20
    stripes: int = 100_000
    columns: int = 50_000
    depth: int = 100
    stripe_bytes: int = 8 << 30

    @classmethod
    def of(cls, settings: _Settings) -> FileLimits:
        """Returns the limits that a site sets."""
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

    def check_stripes(self, name: str, found: int, what: str = "stripes") -> None:
        """Raises ``BadFile`` if the file ``name`` has too many stripes."""
        if found > self.stripes:
            raise self.too_many_stripes(name, found, what)

    def check_columns(self, name: str, found: int) -> None:
        """Raises ``BadFile`` if the file ``name`` has too many columns."""
        if found > self.columns:
            raise self.too_many_columns(name, found)

    def too_many_stripes(self, name: str, found: int, what: str = "stripes") -> BadFile:
        """Returns the error for the file ``name``, of which ``found`` stripes were counted so far."""
        return beyond(name, f"has {found} {what} or more", self.stripes, STRIPES)

    def too_many_columns(self, name: str, found: int) -> BadFile:
        """Returns the error for the file ``name``, of which ``found`` columns were counted so far."""
        return beyond(name, f"has {found} columns or more, those inside of others included", self.columns, COLUMNS)

    def too_long_stripe(self, name: str, found: int) -> BadFile:
        """Returns the error for the stripe ``name`` with ``found`` plain bytes or more."""
        return beyond(name, f"its streams have {found} bytes or more", self.stripe_bytes, STRIPE_BYTES)

    def too_many_parts(self, name: str, part: str, found: int) -> BadFile:
        """Returns the error for a footer, index or statistics of the file ``name`` with ``found`` parts or more."""
        what = f"its {part} has {found} parts or more, most of them empty"
        return beyond(name, what, self.parts, FOOTER_BYTES, f"one for each {BYTES_OF_PART} bytes of ")


def too_deep(name: str, found: int, limit: int) -> BadFile:
    """Returns the error for the file ``name`` whose types are in each other ``found`` deep."""
    return beyond(name, f"its types are in each other {found} deep", limit, DEPTH)


#: For files that were written here, from inputs that were within their limits.
UNLIMITED = FileLimits(footer_bytes=1 << 62, stripes=1 << 62, columns=1 << 62, depth=1 << 62, stripe_bytes=1 << 62)


def beyond(name: str, found: str, limit: int, key: str, share: str = "") -> BadFile:
    """Returns the error for the file ``name`` of which ``found`` is more than ``limit``."""
    return BadFile(
        f"file {name}: {found}, at most {limit} are read ({share}{key}); find out who wrote it, and move it away or raise "
        f"{key}"
    )

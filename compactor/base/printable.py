"""Makes texts with strangers' names safe to print: they cannot control a terminal or begin a new line."""

from __future__ import annotations

import json
import logging
import sys
import unicodedata
from collections.abc import Collection, Sequence

from compactor.base.redaction import redact

_LINE = "\n"
_FEW = 20  #: names in a message


def printable(text: str) -> str:
    """Escapes invisible characters.

    Line ends, commands of terminals, marks of writing direction, halves of UTF-16 pairs.
    """
    if text.isprintable():
        return text
    return "".join(character if _is_visible(character) else _escape(character) for character in text)


def printable_json(text: str) -> str:
    """Escapes the same characters as JSON does; keeps line ends between values."""
    if text.isascii() and "\x7f" not in text:
        return text  # JSON has already escaped the first 32 characters
    return "".join(
        character if character == _LINE or _is_visible(character) else json.dumps(character)[1:-1] for character in text
    )


def count_text(count: int, singular: str, plural: str | None = None) -> str:
    """Formats a number with its noun: ``1 file``, ``2 files``."""
    return f"{count} {singular if count == 1 else plural or singular + 's'}"


def few(names: Collection[str]) -> str:
    """Returns the first of the sorted ``names`` and the number of the others.

    A table may have a million directories.
    """
    return first_few(sorted(names))


def first_few(texts: Sequence[str], most: int = _FEW, between: str = ", ") -> str:
    """Returns the first of ``texts``, and how many more there are."""
    return between.join(texts[:most]) + (f" and {len(texts) - most} more" if len(texts) > most else "")


class PrintableFormatter(logging.Formatter):
    """Formats a record with a message of one line, and without secrets, also in a trace."""

    def format(self, record: logging.LogRecord) -> str:
        return redact(super().format(record))

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - its name in logging
        return printable(super().formatMessage(record))


def log_lines(level: int) -> None:
    """Logs to stderr from ``level`` on, one line for each message."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(PrintableFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=level, handlers=[handler], force=True)


def _is_visible(character: str) -> bool:
    return character.isprintable() or unicodedata.category(character) == "Zs"


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")

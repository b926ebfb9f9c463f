"""Texts with names that strangers chose, as they may be printed: they control no terminal and begin no line of their own."""

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
    """Returns ``text`` with escapes in place of all that is not seen as a character: line ends, a terminal's commands,
    marks that turn the direction of writing, halves of UTF-16."""
    return text if text.isprintable() else "".join(one if _is_seen(one) else _escape(one) for one in text)


def printable_json(text: str) -> str:
    """Returns JSON with the escapes of JSON in place of the same characters; line ends between its values stay."""
    if text.isascii() and "\x7f" not in text:
        return text  # the first 32 are escaped in any JSON
    return "".join(one if one == _LINE or _is_seen(one) else json.dumps(one)[1:-1] for one in text)


def few(names: Collection[str]) -> str:
    """Returns the first of ``names`` in their order, and how many more there are: of directories there may be a million."""
    return first_few(sorted(names))


def first_few(texts: Sequence[str], most: int = _FEW, between: str = ", ") -> str:
    """Returns the first of ``texts`` as they come, and how many more there are."""
    return between.join(texts[:most]) + (f" and {len(texts) - most} more" if len(texts) > most else "")


class PrintableFormatter(logging.Formatter):
    """Formats a record so that its message is one line, whatever names are in it, and no secret is in it or in a trace."""

    def format(self, record: logging.LogRecord) -> str:
        return redact(super().format(record))

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - its name in logging
        return printable(super().formatMessage(record))


def log_lines(level: int) -> None:
    """Writes what is logged from ``level`` on to stderr, a line for each message."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(PrintableFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=level, handlers=[handler], force=True)


def _is_seen(character: str) -> bool:
    return character.isprintable() or unicodedata.category(character) == "Zs"


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")

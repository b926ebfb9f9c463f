"""Recognizes like queries: same tables, and same text except for constants, blanks and comments. Pure."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection

MOST_TEXT = 100_000  #: characters that are compared; the rest of a query does not count
_SIZE = 16  #: bytes of a digest
#: An unclosed quote or comment lasts to the end of the text, so that matching takes linear time.
_PARTS = re.compile(
    r"""(?P<text>'(?:[^'\\]|\\.|'')*(?:'|\Z))
      | (?P<quoted>"(?:[^"\\]|\\.|"")*(?:"|\Z))
      | (?P<name>`[^`]*(?:`|\Z))
      | (?P<blank>--[^\n]*|/\*(?:.*?\*/|.*\Z)|\s+)
      | (?P<number>\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)
      | (?P<word>\w+)
      | (?P<sign>.)""",
    re.VERBOSE | re.DOTALL,
)
_CONSTANT = "?"


def normalise_query(sql: str, *, quotes_are_text: bool) -> str:
    """Returns a query without its constants, blanks and comments, words in lower case.

    Args:
        quotes_are_text: true where double quotes hold a constant, as in Hive; otherwise they hold a name.
    """
    constants = {"text", "number", *(["quoted"] if quotes_are_text else [])}
    parts = []
    for part in _PARTS.finditer(sql[:MOST_TEXT]):
        kind = part.lastgroup
        if kind in constants:
            parts.append(_CONSTANT)
        elif kind != "blank":
            parts.append(part.group() if kind in ("quoted", "name") else part.group().lower())
    return re.sub(r"\?(?: , \?)+", "?", " ".join(parts)).rstrip("; ")


def digest_likeness(sql: str, tables: Collection[tuple[str, str]], *, quotes_are_text: bool) -> str:
    """Returns a digest that like queries share and that does not reveal their text."""
    alike = json.dumps([normalise_query(sql, quotes_are_text=quotes_are_text), sorted(tables)])
    return hashlib.blake2b(alike.encode(errors="surrogatepass"), digest_size=_SIZE).hexdigest()

"""Splits a text into statements, and these into words, names, literals and signs.

Renders tokens as text.

Hive ignores the case of keywords and names, so their tokens are in lower case. Texts keep their case.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

from compactor.base.errors import BadStatement

LONGEST = 16 * 2**20  #: characters of a text
DEEPEST = 100  #: levels of parentheses

_TOKEN = re.compile(
    r"""
      (?P<space>\s+|--[^\r\n]*|/\*.*?\*/)
    | (?P<text>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")
    | (?P<quoted>`(?:[^`]|``)*`)
    | (?P<number>[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?(?![A-Za-z0-9_]))
    | (?P<word>[A-Za-z0-9_\u0080-\ud7ff\ue000-\uffff]+)
    | (?P<sign><>|<=|>=|!=|==|\|\||[-(),.;=<>*+/%&|^~!?:\[\]{}$@])
    """,
    re.VERBOSE | re.DOTALL,
)
_QUOTES = "'\"`"
#: Hive's escapes within a text (``BaseSemanticAnalyzer.unescapeSQLString``); any other character stands for itself.
_ESCAPE = re.compile(r"\\u([0-9a-fA-F]{4})|\\([0-3][0-7]{2})|\\(.)|''|\"\"", re.DOTALL)
_ESCAPED = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": r"\%", "_": r"\_"}
#: Clauses that may follow the tables of a query.
CLAUSES = frozenset(
    ("where", "group", "having", "order", "sort", "distribute", "cluster", "limit", "window", "qualify")
)
SET_OPERATIONS = frozenset(("union", "intersect", "except", "minus"))
JOINS = frozenset(("join", "inner", "outer", "left", "right", "full", "cross", "semi", "anti", "natural"))
JOINED = frozenset(("lateral", "on", "using"))  #: words that may follow the table of a join
QUERIES = ("select", "with", "from", "(")  #: the beginnings of a query
_OPERANDS = ("word", "quoted", "text", "number")
_BEFORE_SIGN = frozenset(("and", "or", "not", "between", "in", "like", "is", "where", "set", "by"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A word, quoted name, text, number or sign (``kind``). ``value`` is in lower case, except for texts.

    ``start`` and ``end`` are offsets in the whole text. ``line`` and ``column`` count from 1.
    """

    kind: str
    value: str
    start: int = field(default=0, compare=False)
    end: int = field(default=0, compare=False)
    line: int = field(default=1, compare=False)
    column: int = field(default=1, compare=False)

    def __str__(self) -> str:
        return self.value

    @property
    def place(self) -> str:
        """The place of its first character, as messages give it."""
        return f"line {self.line}, character {self.column}"


def split_statements(text: str) -> tuple[tuple[Token, ...], ...]:
    """Returns the tokens of each statement of ``text``, without comments, semicolons and empty statements.

    Raises:
        BadStatement: a character starts no token, a text is unterminated or has half a character, or parentheses are
            nested too deeply.
    """
    statements: list[tuple[Token, ...]] = []
    current: list[Token] = []
    for token in _scan(text):
        if token.kind == "sign" and token.value == ";":
            statements.append(tuple(current))
            current = []
        else:
            current.append(token)
    return tuple(tokenize for tokenize in (*statements, tuple(current)) if tokenize)


def tokenize(text: str) -> tuple[Token, ...]:
    """Returns the tokens of a text that is one statement; an empty text has none.

    Raises:
        BadStatement: as for ``split_statements``, or the text has several statements.
    """
    statements = split_statements(text)
    if len(statements) > 1:
        raise BadStatement(f"statement: there are several, the second at {statements[1][0].place}; give one at a time")
    return statements[0] if statements else ()


def quote_words(tokenize: Sequence[Token], most: int = 3) -> str:
    """Returns the first tokens as messages quote them."""
    return " ".join(map(str, tokenize[:most])).upper()


def _scan(text: str) -> Iterator[Token]:
    if len(text) > LONGEST:
        raise BadStatement(f"a text of {len(text)} characters; at most {LONGEST} are read")
    at = depth = begin = 0
    line = 1
    while at < len(text):
        match = _TOKEN.match(text, at)
        place = f"line {line}, character {at - begin + 1}"
        if match is None:
            if text[at] in _QUOTES:  # a text without an end may be a secret, so none of it is shown
                raise BadStatement(f"statement: the text or name that begins with {text[at]} at {place} has no end")
            raise BadStatement(f"statement: {text[at : at + 20]!r} at {place} is not a word, name, text or sign")
        if text.startswith("/*", at) and match.lastgroup != "space":
            raise BadStatement(f"statement: the comment at {place} has no end")
        kind, raw, start, at = match.lastgroup or "", match.group(), at, match.end()
        if kind != "space":
            depth += {"(": 1, ")": -1}.get(raw, 0)
            if depth > DEEPEST:
                raise BadStatement(f"statement: more than {DEEPEST} levels of parentheses at {place}")
            yield Token(
                kind=kind, value=_value(kind, raw, place), start=start, end=at, line=line, column=start - begin + 1
            )
        if "\n" in raw:
            line, begin = line + raw.count("\n"), start + raw.rindex("\n") + 1


def _value(kind: str, raw: str, place: str) -> str:
    if kind == "text":
        return _join_surrogates(_ESCAPE.sub(_unescape, raw[1:-1]), place)
    return _join_surrogates(raw[1:-1].replace("``", "`").lower(), place) if kind == "quoted" else raw.lower()


def _join_surrogates(text: str, place: str) -> str:
    """Joins the two halves in which Java writes a character beyond U+FFFF."""
    if text.isascii():
        return text
    try:
        return text.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError as error:
        raise BadStatement(
            f"statement: {text[:20]!r} at {place} has half of a character; \\ud800 to \\udbff are expected before "
            "\\udc00 to \\udfff"
        ) from error


def _unescape(match: re.Match[str]) -> str:
    unicode, octal, character = match.groups()
    if unicode is not None or octal is not None:
        return chr(int(unicode, 16) if unicode is not None else int(octal, 8))
    return match.group()[0] if character is None else _ESCAPED.get(character, character)


def render_filter(tokens: Sequence[Token], qualifiers: Collection[str] = ()) -> str:
    """Renders tokens as a filter; ``qualifiers`` in front of columns are dropped, as in ``t.c``."""
    parts: list[str] = []
    at = 0
    while at < len(tokens):
        token = tokens[at]
        if _qualifies(tokens, at, qualifiers):
            at += 2
            continue
        if token.kind == "sign" and token.value in ("-", "+") and _is_sign(tokens, at):
            parts.append(token.value + tokens[at + 1].value)
            at += 2
            continue
        parts.append(_render_token(token))
        at += 1
    return " ".join(parts)


def _qualifies(tokens: Sequence[Token], at: int, qualifiers: Collection[str]) -> bool:
    following = tokens[at + 1 : at + 3]
    return (
        tokens[at].kind in ("word", "quoted")
        and tokens[at].value in qualifiers
        and len(following) == 2
        and (following[0].kind, following[0].value) == ("sign", ".")
        and following[1].kind in ("word", "quoted")
        and not (at and tokens[at - 1].value == ".")
    )


def _is_sign(tokens: Sequence[Token], at: int) -> bool:
    """Tells whether the plus or minus at ``at`` belongs to the number that follows it."""
    if at + 1 >= len(tokens) or tokens[at + 1].kind != "number":
        return False
    before = tokens[at - 1] if at else None
    if before is None or (before.kind == "word" and before.value in _BEFORE_SIGN):
        return True
    return before.kind not in _OPERANDS and before.value != ")"


def _render_token(token: Token) -> str:
    if token.kind == "text":
        return "'" + token.value.replace("'", "''") + "'"
    return f"`{token.value.replace('`', '``')}`" if token.kind == "quoted" else token.value


def render_type(tokens: Sequence[Token]) -> str:
    """Renders tokens as a Hive type, with blanks only between words."""
    parts: list[str] = []
    for token in tokens:
        if parts and token.kind != "sign" and parts[-1][-1] not in "(<,:>)":
            parts.append(" ")
        parts.append(_render_token(token))
    return "".join(parts)

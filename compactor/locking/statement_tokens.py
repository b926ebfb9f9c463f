"""Splits a statement into words, names and string literals, and finds the tables its queries read.

It understands only as much SQL as finding locks needs. Keywords and names are not case sensitive in Hive and come out in
lower case; string literals keep their case.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from compactor.errors import Refused

_TOKEN = re.compile(
    r"""
      (?P<space>\s+|--[^\n]*|/\*.*?\*/)
    | (?P<text>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.)*")
    | (?P<quoted>`(?:[^`]|``)*`)
    | (?P<number>\d+(?:\.\d+)?(?:[eE][+-]?\d+)?(?![A-Za-z0-9_]))
    | (?P<word>[A-Za-z0-9_\u0080-\uffff]+)
    | (?P<sign><>|<=|>=|!=|==|\|\||[-(),.;=<>*+/%&|^~!?:\[\]{}$@])
    """,
    re.VERBOSE | re.DOTALL,
)
#: Words that end a list of tables in FROM outside parentheses.
_ENDS_FROM = frozenset(
    ("where", "group", "having", "order", "sort", "distribute", "cluster", "limit", "union", "intersect", "except")
) | frozenset(("minus", "select", "insert", "window", "qualify", "when", "set", "lateral", "on", "using"))
_JOINS = frozenset(("join", "inner", "outer", "left", "right", "full", "cross", "semi", "anti", "natural"))
_QUERIES = frozenset(("select", "with", "from", "("))


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A word, quoted name, text, number or sign (``kind``); ``value`` is in lower case except for texts."""

    kind: str
    value: str

    def __str__(self) -> str:
        return self.value


_FROM = Token(kind="word", value="from")


@dataclass(frozen=True, slots=True, kw_only=True)
class Name:
    """The name of a table or database in a statement. ``database`` None is the current one."""

    database: str | None = None
    table: str

    def __str__(self) -> str:
        return self.table if self.database is None else f"{self.database}.{self.table}"


def tokens(text: str) -> tuple[Token, ...]:
    """Returns the words and signs of one statement, without comments and the semicolon at its end.

    Raises:
        Refused: a character belongs to no word, a text is unterminated, or there are several statements.
    """
    found: list[Token] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise Refused(f"statement: {text[at : at + 20]!r} at character {at + 1} is not a word, name, text or sign")
        at = match.end()
        kind, value = match.lastgroup or "", match.group()
        if kind == "text":
            value = re.sub(r"\\(.)|''", lambda m: m.group(1) or "'", value[1:-1])
        elif kind == "quoted":
            value = value[1:-1].replace("``", "`").lower()
        elif kind == "space":
            continue
        else:
            value = value.lower()
        found.append(Token(kind=kind, value=value))
    while found and found[-1] == Token(kind="sign", value=";"):
        found.pop()
    if Token(kind="sign", value=";") in found:
        raise Refused("statement: there are several; explain the locks of one at a time")
    return tuple(found)


class TokenReader:
    """A cursor over the tokens of a statement, from left to right."""

    def __init__(self, found: Sequence[Token]) -> None:
        self._tokens = found
        self._at = 0

    @property
    def rest(self) -> tuple[Token, ...]:
        """The tokens not read yet."""
        return tuple(self._tokens[self._at :])

    def at(self, *words: str) -> bool:
        """Tells whether these words or signs come next."""
        following = self._tokens[self._at : self._at + len(words)]
        return len(following) == len(words) and all(
            token.kind in ("word", "sign") and token.value == word for token, word in zip(following, words, strict=True)
        )

    def take(self, *words: str) -> bool:
        """Skips these words if they come next; returns true if they did."""
        if not self.at(*words):
            return False
        self._at += len(words)
        return True

    def need(self, *words: str) -> None:
        """Skips these words.

        Raises:
            Refused: something else comes next.
        """
        if not self.take(*words):
            raise Refused(f"statement: {' '.join(words).upper()} is expected {self._where()}")

    def name(self) -> Name:
        """Reads a name, with or without its database. A catalog before it must be Hive's own.

        Raises:
            Refused: no name comes next.
        """
        parts = [self._part()]
        while self.take("."):
            parts.append(self._part())
        if len(parts) == 3 and parts[0] in ("hive", "spark_catalog"):
            parts = parts[1:]
        if len(parts) > 2:
            raise Refused(f"statement: {'.'.join(parts)} has too many parts; a table is DATABASE.TABLE")
        return Name(database=parts[0] if len(parts) == 2 else None, table=parts[-1])

    def _part(self) -> str:
        if self._at < len(self._tokens) and self._tokens[self._at].kind in ("word", "quoted", "number"):
            self._at += 1
            return self._tokens[self._at - 1].value
        raise Refused(f"statement: a name is expected {self._where()}")

    def partition(self) -> tuple[tuple[str, str | None], ...] | None:
        """Reads ``PARTITION (k='v', k2)`` if it comes next: each key with its plain value, None for a dynamic one.

        Raises:
            Refused: the clause is not a list of keys.
        """
        if not self.take("partition"):
            return None
        self.need("(")
        keys: list[tuple[str, str | None]] = []
        while True:
            key = self._part()
            if self.take("=") or self.take("=="):
                keys.append((key, self._value()))
            elif any(self.take(sign) for sign in ("<", ">", "<=", ">=", "<>", "!=")):
                self._value()
                keys.append((key, None))  # several values may be meant
            else:
                keys.append((key, None))
            if not self.take(","):
                break
        self.need(")")
        return tuple(keys)

    def _value(self) -> str:
        sign = "-" if self.take("-") else ""
        if self.at("date") or self.at("timestamp"):
            self._at += 1
        if self._at < len(self._tokens) and self._tokens[self._at].kind in ("text", "number", "word"):
            self._at += 1
            return sign + self._tokens[self._at - 1].value
        raise Refused(f"statement: a partition's value is expected {self._where()}")

    def group(self) -> tuple[Token, ...]:
        """Reads the contents of the parentheses that open next.

        Raises:
            Refused: they are never closed.
        """
        self.need("(")
        depth, begin = 1, self._at
        while self._at < len(self._tokens):
            token = self._tokens[self._at]
            self._at += 1
            if token.kind == "sign":
                depth += {"(": 1, ")": -1}.get(token.value, 0)
            if depth == 0:
                return tuple(self._tokens[begin : self._at - 1])
        raise Refused("statement: a parenthesis is never closed")

    def skip(self) -> Token | None:
        """Reads the next token; None at the end."""
        if self._at >= len(self._tokens):
            return None
        self._at += 1
        return self._tokens[self._at - 1]

    def skip_to(self, *words: str) -> bool:
        """Skips to the first of ``words`` outside parentheses; returns false if there is none."""
        while self._at < len(self._tokens):
            if self.at("("):
                self.group()
            elif any(self.at(word) for word in words):
                return True
            else:
                self._at += 1
        return False

    def _where(self) -> str:
        if self._at >= len(self._tokens):
            return "at the end"
        return f"before {' '.join(map(str, self._tokens[self._at : self._at + 3]))!r}"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueriedTable:
    """A table that a query reads, with the plain values its WHERE demands of columns: ``where k = 'v' and ...``."""

    name: Name
    where: tuple[tuple[str, str], ...] = ()


def sources(found: Sequence[Token], defined: frozenset[str] = frozenset()) -> tuple[QueriedTable, ...]:
    """Returns every table that a query names after FROM or JOIN, including subqueries but not names defined by WITH.

    Conditions are only used if FROM has one table, so that a column cannot belong to another table.
    """
    reader = TokenReader(found)
    read: list[QueriedTable] = []
    if reader.take("with"):
        reader.take("recursive")
        while True:
            defined |= {reader.name().table}
            if reader.at("("):
                reader.group()
            reader.need("as")
            read += sources(reader.group(), defined)
            if not reader.take(","):
                break
    here: list[Name] = []
    joined = False
    where: tuple[tuple[str, str], ...] = ()
    while reader.rest:
        if reader.at("("):
            read += _inside(reader.group(), defined)
        elif reader.take("is", "distinct", "from") or reader.take("is", "not", "distinct", "from"):
            continue
        elif reader.take("from") or reader.take("join"):
            names, nested = _from(reader, defined)
            joined = joined or bool(here) or len(names) != 1 or bool(nested)
            here += names
            read += nested
        elif reader.take("where"):
            where = conditions(reader.rest)
        elif reader.at("union") or reader.at("intersect") or reader.at("except") or reader.at("minus"):
            read += _with_conditions(here, joined, where)
            here, joined, where = [], False, ()
            reader.skip()
        else:
            reader.skip()
    read += _with_conditions(here, joined, where)
    return tuple(dict.fromkeys(read))


def conditions(found: Sequence[Token]) -> tuple[tuple[str, str], ...]:
    """Returns ``k = literal`` for each such term of a WHERE that joins its terms by AND; otherwise nothing."""
    reader = TokenReader(found)
    terms: list[list[Token]] = [[]]
    while (token := next(iter(reader.rest), None)) is not None:
        if reader.at("("):
            reader.group()
            terms[-1].append(Token(kind="group", value="()"))
            continue
        if token.kind == "word" and token.value in ("or", "between", "not"):
            return ()
        if token.kind == "word" and token.value in _ENDS_FROM | {"minus"}:
            break
        reader.skip()
        if token.kind == "word" and token.value == "and":
            terms.append([])
        else:
            terms[-1].append(token)
    return tuple(known for term in terms if (known := _equality(term)) is not None)


def _equality(term: Sequence[Token]) -> tuple[str, str] | None:
    if len(term) == 5 and term[1].value == ".":
        term = term[2:]  # the alias in front of a column
    if len(term) != 3 or term[1].value not in ("=", "==") or term[1].kind != "sign":
        return None
    column, value = (term[0], term[2]) if term[0].kind in ("word", "quoted") else (term[2], term[0])
    if column.kind not in ("word", "quoted") or value.kind not in ("text", "number"):
        return None
    return (column.value, value.value)


def _with_conditions(names: Sequence[Name], joined: bool, where: tuple[tuple[str, str], ...]) -> list[QueriedTable]:
    return [QueriedTable(name=name, where=() if joined else where) for name in names]


def _inside(group: Sequence[Token], defined: frozenset[str]) -> tuple[QueriedTable, ...]:
    """Returns the tables a parenthesis reads. FROM outside a query belongs to a function (``extract(year from d)``)."""
    if group and group[0].kind in ("word", "sign") and group[0].value in _QUERIES:
        return sources(group, defined)
    reader, read = TokenReader(group), list[QueriedTable]()
    while reader.rest:
        if reader.at("("):
            read += _inside(reader.group(), defined)
        else:
            reader.skip()
    return tuple(read)


def _from(reader: TokenReader, defined: frozenset[str]) -> tuple[list[Name], list[QueriedTable]]:
    """Returns the tables of one FROM up to its end or the next JOIN, and those its subqueries read."""
    names: list[Name] = []
    nested: list[QueriedTable] = []
    while True:
        if reader.at("("):
            inner = reader.group()
            if inner and inner[0].kind in ("word", "sign") and inner[0].value in _QUERIES:
                nested += sources(inner, defined)
            else:
                nested += sources((_FROM, *inner), defined)
        elif not reader.take("values") and not reader.at("table", "("):
            name = reader.name()
            if not (name.database is None and name.table in defined):
                names.append(name)
        while (rest := reader.rest) and not reader.at(","):
            if rest[0].kind == "word" and rest[0].value in _ENDS_FROM | _JOINS:
                return names, nested
            if reader.at("("):
                reader.group()
            else:
                reader.skip()
        if not reader.take(","):
            return names, nested

"""A cursor over the tokens of a statement.

Its errors name what was expected and what is there instead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from compactor.base.errors import BadStatement
from compactor.base.redaction import HIDDEN, is_secret_key
from compactor.locking.statement_rules import Name, Spec
from compactor.statements.tokens import Token

_VALUES = ("text", "number")
_COMPARISONS = ("<", ">", "<=", ">=", "<>", "!=")


class TokenReader:
    """The tokens of a statement, or of a part of one, read from left to right."""

    def __init__(self, tokens: Sequence[Token], last: Token | None = None) -> None:
        self._tokens = tokens
        self._at = 0
        self._last = last or (tokens[-1] if tokens else None)

    @property
    def rest(self) -> tuple[Token, ...]:
        """The tokens not read yet."""
        return tuple(self._tokens[self._at :])

    @property
    def remaining(self) -> int:
        """The number of tokens not read yet."""
        return len(self._tokens) - self._at

    @property
    def ended(self) -> bool:
        """True if every token was read."""
        return self._at >= len(self._tokens)

    @property
    def next(self) -> Token | None:
        """The next token; None at the end."""
        return None if self.ended else self._tokens[self._at]

    @property
    def before(self) -> Token | None:
        """The token that was read last; None at the beginning."""
        return self._tokens[self._at - 1] if self._at else None

    def at(self, *words: str) -> bool:
        """Tells whether these words or signs come next."""
        following = self._tokens[self._at : self._at + len(words)]
        return len(following) == len(words) and all(
            token.kind in ("word", "sign") and token.value == word for token, word in zip(following, words, strict=True)
        )

    def at_any(self, *words: str) -> bool:
        """Tells whether one of these words or signs comes next."""
        return any(self.at(word) for word in words)

    def take(self, *words: str) -> bool:
        """Skips these words if they come next; returns true if they did."""
        if not self.at(*words):
            return False
        self._at += len(words)
        return True

    def need(self, *words: str) -> None:
        """Skips these words.

        Raises:
            BadStatement: something else comes next.
        """
        if not self.take(*words):
            raise self.bad(f"{' '.join(words).upper()} is expected")

    def end(self) -> None:
        """Checks that all tokens were read.

        Raises:
            BadStatement: tokens remain.
        """
        if not self.ended:
            raise self.bad("the end is expected")

    def bad(self, expectation: str) -> BadStatement:
        """Returns the error at the next token: ``expectation``, and what is there instead."""
        token = self.next
        if token is None:
            shown = "" if self._last is None else self._show([self._last])
            after = "" if self._last is None else f", after {shown!r} at {self._last.place}"
            return BadStatement(f"statement: {expectation} at the end{after}")
        shown = self._show(self._tokens[self._at : self._at + 3])
        return BadStatement(f"statement: {expectation} before {shown!r} at {token.place}")

    def _show(self, tokens: Sequence[Token]) -> str:
        """Returns tokens as messages show them.

        After a text that names a secret, such as 'my.password', no other text is shown.
        """
        key = next((token for token in self._tokens if token.kind == "text" and is_secret_key(token.value)), None)
        return " ".join(
            HIDDEN if key is not None and token.kind == "text" and token.start > key.start else str(token)
            for token in tokens
        )

    def name(self) -> Name:
        """Reads a name, with or without its database. A catalog in front must be Hive's own.

        Raises:
            BadStatement: no name comes next.
        """
        begin = self.next
        parts = [self.part()]
        while self.take("."):
            parts.append(self.part())
        if len(parts) == 3 and parts[0] in ("hive", "spark_catalog"):
            parts = parts[1:]
        if len(parts) > 2:
            where = "" if begin is None else f" at {begin.place}"
            raise BadStatement(f"statement: {'.'.join(parts)}{where} has too many parts; a table is DATABASE.TABLE")
        return Name(database=parts[0] if len(parts) == 2 else None, table=parts[-1])

    def part(self) -> str:
        """Reads one name, of a column, a key or a part of a table's.

        Raises:
            BadStatement: none comes next.
        """
        token = self.next
        if token is None or token.kind not in ("word", "quoted", "number") or not token.value:
            raise self.bad("a name is expected")
        self._at += 1
        return token.value

    def names(self) -> tuple[str, ...]:
        """Reads ``(a, b, ...)``.

        Raises:
            BadStatement: something else comes next.
        """
        self.need("(")
        names = [self.part()]
        while self.take(","):
            names.append(self.part())
        self.need(")")
        return tuple(names)

    def text(self, what: str = "a text in quotes") -> str:
        """Reads a text.

        Raises:
            BadStatement: none comes next.
        """
        token = self.next
        if token is None or token.kind != "text":
            raise self.bad(f"{what} is expected")
        self._at += 1
        return token.value

    def integer(self, what: str = "a number") -> int:
        """Reads a whole number of at most 18 digits.

        Raises:
            BadStatement: none comes next.
        """
        token = self.next
        if token is None or token.kind != "number" or not token.value.isdecimal() or len(token.value) > 18:
            raise self.bad(f"{what} is expected")
        self._at += 1
        return int(token.value)

    def properties(self) -> tuple[tuple[str, str], ...]:
        """Reads ``('k'='v', ...)``.

        Raises:
            BadStatement: something else comes next, or a key is there twice.
        """
        self.need("(")
        properties: dict[str, str] = {}
        while True:
            at = self._at
            key = self.text("a property's name in quotes")
            if key in properties:
                self._at = at
                raise self.bad("each property once is expected")
            self.need("=")
            properties[key] = self.text("a property's value in quotes")
            if not self.take(","):
                break
        self.need(")")
        return tuple(properties.items())

    def partition(self) -> Spec | None:
        """Reads ``PARTITION (k='v', k2)`` if it comes next.

        Each key has its plain value, None for a dynamic one.

        Raises:
            BadStatement: the clause is not a list of keys.
        """
        return self.spec() if self.take("partition") else None

    def values(self) -> Spec | None:
        """Reads ``PARTITION (k='v', ...)`` if it comes next; each key must have a value.

        Raises:
            BadStatement: a key has no value, and would thus stand for all values.
        """
        begin, spec = self.next, self.partition()
        if spec is not None and begin is not None and any(value is None for _, value in spec):
            raise BadStatement(f"statement: {begin} at {begin.place} names a key without a value; give each one's")
        return spec

    def spec(self, *, comparisons: bool = False) -> Spec:
        """Reads the part of ``PARTITION (...)`` in parentheses.

        Args:
            comparisons: also accept operators other than ``=``; the value is None then.
        """
        self.need("(")
        keys: list[tuple[str, str | None]] = []
        while True:
            key = self.part()
            if self.take("=") or self.take("=="):
                keys.append((key, self._value()))
            elif comparisons and any(self.take(sign) for sign in _COMPARISONS):
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
        token = self.next
        if token is None or (token.kind not in _VALUES and not self.at_any("true", "false")):
            raise self.bad("a partition's value is expected")
        self._at += 1
        return sign + token.value

    def group(self) -> tuple[Token, ...]:
        """Reads what is within the parentheses that open next.

        Raises:
            BadStatement: the parentheses are never closed.
        """
        opening = self.next
        self.need("(")
        depth, begin = 1, self._at
        while self._at < len(self._tokens):
            token = self._tokens[self._at]
            self._at += 1
            if token.kind == "sign":
                depth += {"(": 1, ")": -1}.get(token.value, 0)
            if depth == 0:
                return tuple(self._tokens[begin : self._at - 1])
        where = "" if opening is None else f", which opens at {opening.place},"
        raise BadStatement(f"statement: a parenthesis{where} is never closed")

    def until(self, ends: Callable[[Token], bool]) -> list[Token]:
        """Reads tokens up to the first one outside parentheses for which ``ends`` is true.

        ``ends`` is called before its token is read.

        Raises:
            BadStatement: a parenthesis is never closed, or was never opened.
        """
        begin = self._at
        while (token := self.next) is not None and not ends(token):
            if self.at("("):
                self.group()
            elif self.at(")"):
                raise self.bad("no closing parenthesis, since none is open, is expected")
            else:
                self._at += 1
        return list(self._tokens[begin : self._at])

    def skip(self) -> Token | None:
        """Reads the next token; None at the end."""
        if self.ended:
            return None
        self._at += 1
        return self._tokens[self._at - 1]

    def skip_to(self, *words: str) -> bool:
        """Skips to the first of ``words`` outside parentheses; returns false if there is none."""
        while not self.ended:
            if self.at("("):
                self.group()
            elif self.at_any(*words):
                return True
            else:
                self._at += 1
        return False

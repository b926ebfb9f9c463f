"""Parses filters, and the literals of dates and times.

The grammar is closed: comparisons, AND, OR, NOT, IN, BETWEEN, IS NULL and LIKE on columns and literals.

::

    filter     = conjunction {OR conjunction}
    conjunction = negation {AND negation}
    negation   = NOT negation | predicate
    predicate  = '(' filter ')' | operand | operand comparison operand | operand IS [NOT] NULL
               | operand [NOT] IN '(' literal {',' literal} ')' | operand [NOT] BETWEEN literal AND literal
               | operand [NOT] LIKE text
    comparison = '=' | '==' | '<>' | '!=' | '<' | '<=' | '>' | '>='
    operand    = column | literal
    literal    = number | text | TRUE | FALSE | NULL | DATE text | TIMESTAMP text
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import NamedTuple, NoReturn, TypeAlias

from compactor.base.errors import BadExpression

LONGEST = 1_000_000  #: characters of a filter
DEEPEST = 100  #: levels of parentheses and NOT
_EPOCH = datetime.datetime(1970, 1, 1)
_DIGITS = 9  #: in the fraction of a second
_DATE = r"(\d{4})-(\d{1,2})-(\d{1,2})"
_DATE_AND_TIME = re.compile(
    _DATE + rf"(?P<time>[ T](\d{{1,2}}):(\d{{2}})(?::(\d{{2}})(?:\.(?P<fraction>\d{{1,{_DIGITS}}}))?)?)?", re.ASCII
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnName:
    """A column name, in lower case; ``place`` is the position of its first character, for messages."""

    name: str
    place: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Literal:
    """A value as written; a number is a Decimal.

    ``word`` is DATE or TIMESTAMP if that introduces the text.
    """

    value: Decimal | str | bool | None
    place: int
    word: str = ""


Operand: TypeAlias = ColumnName | Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """``left operator right``; the operator is one of ``= != < <= > >=``."""

    operator: str
    left: Operand
    right: Operand
    place: int


@dataclass(frozen=True, slots=True, kw_only=True)
class In:
    """``operand IN (values)``."""

    operand: Operand
    values: tuple[Literal, ...]
    place: int


@dataclass(frozen=True, slots=True, kw_only=True)
class IsNull:
    """``operand IS NULL``."""

    operand: Operand


@dataclass(frozen=True, slots=True, kw_only=True)
class Like:
    """``operand LIKE pattern``: ``%`` matches any text, ``_`` one character; a backslash escapes either."""

    operand: Operand
    pattern: str
    place: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """A column or literal that is a condition as it stands."""

    operand: Operand


@dataclass(frozen=True, slots=True, kw_only=True)
class Not:
    part: Expression


@dataclass(frozen=True, slots=True, kw_only=True)
class And:
    parts: tuple[Expression, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Or:
    parts: tuple[Expression, ...]


Expression: TypeAlias = Comparison | In | IsNull | Like | Truth | Not | And | Or

_TOKEN = re.compile(
    r"\s*(?:(?P<number>[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?(?![A-Za-z_0-9]))"
    r"|(?P<text>'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\")"
    r"|(?P<quoted>`(?:[^`]|``)+`)|(?P<word>[A-Za-z_][A-Za-z_0-9]*)|(?P<sign>==|<>|!=|<=|>=|[=<>(),])|(?P<end>$))"
)
_HALF = re.compile("[\ud800-\udfff]")  #: a surrogate, which UTF-8 cannot encode
_WORDS = frozenset(["AND", "OR", "NOT", "IN", "BETWEEN", "IS", "NULL", "LIKE", "TRUE", "FALSE"])
_COMPARISONS = {"=": "=", "==": "=", "<>": "!=", "!=": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}


class _Token(NamedTuple):
    kind: str
    text: str
    place: int


def parse(text: str) -> Expression:
    """Parses the text of a filter.

    Raises:
        BadExpression: it does not follow the grammar; the message has the place.
    """
    return _ExpressionParser(text).whole()


def filter_error(text: str, place: int, what: str) -> BadExpression:
    """Returns the error at ``place`` of a filter's text."""
    shown = text if len(text) <= 200 else f"{text[max(0, place - 80) : place + 80]} …"
    return BadExpression(f"filter {shown!r}, at character {place + 1}: {what}")


def _tokens(text: str) -> Iterator[_Token]:
    place = 0
    while True:
        match = _TOKEN.match(text, place)
        if match is None:
            start = place + len(text[place:]) - len(text[place:].lstrip())
            raise filter_error(text, start, f"{text[start]!r} cannot begin a part of a filter")
        kind = match.lastgroup or "end"
        yield _Token(kind, match.group(kind), match.start(kind))
        if kind == "end":
            return
        place = match.end()


class _ExpressionParser:
    def __init__(self, text: str) -> None:
        self._text = text
        if len(text) > LONGEST:
            raise BadExpression(f"the filter has {len(text)} characters; at most {LONGEST} are allowed")
        if half := _HALF.search(text):
            raise filter_error(text, half.start(), "half a character was found, which no text of a table can have")
        self._tokens = list(_tokens(text))
        self._at = self._depth = 0

    def whole(self) -> Expression:
        expression = self._filter()
        if self._token.kind != "end":
            self._fail("AND, OR or the end")
        return expression

    def _filter(self) -> Expression:
        parts = self._series(self._conjunction, "OR")
        return parts[0] if len(parts) == 1 else Or(parts=tuple(parts))

    def _conjunction(self) -> Expression:
        parts = self._series(self._negation, "AND")
        return parts[0] if len(parts) == 1 else And(parts=tuple(parts))

    def _series(self, part: Callable[[], Expression], word: str) -> Sequence[Expression]:
        parts = [part()]
        while self._takes_word(word):
            parts.append(part())
        return parts

    def _negation(self) -> Expression:
        if self._token.kind == "word" and self._token.text.upper() == "NOT":
            return Not(part=self._deeper(self._negation))
        return self._predicate()

    def _deeper(self, part: Callable[[], Expression]) -> Expression:
        """Parses ``part`` after the current token, one level deeper."""
        self._depth += 1
        if self._depth > DEEPEST:
            self._fail(f"at most {DEEPEST} levels of NOT and parentheses")
        self._at += 1
        expression = part()
        self._depth -= 1
        return expression

    def _predicate(self) -> Expression:
        if self._token.text == "(" and self._token.kind == "sign":
            expression = self._deeper(self._filter)
            self._take_sign(")")
            return expression
        operand, place = self._operand(), self._token.place
        if self._token.kind == "sign" and self._token.text in _COMPARISONS:
            operator = _COMPARISONS[self._token.text]
            self._at += 1
            return Comparison(operator=operator, left=operand, right=self._operand(), place=place)
        if self._takes_word("IS"):
            negated = self._takes_word("NOT")
            self._take_word("NULL")
            return _negate(IsNull(operand=operand), negated)
        negated = self._takes_word("NOT")
        test = self._test(operand, place)
        if test is None and negated:
            self._fail("IN, BETWEEN or LIKE")
        return Truth(operand=operand) if test is None else _negate(test, negated)

    def _test(self, operand: Operand, place: int) -> Expression | None:
        if self._takes_word("IN"):
            self._take_sign("(")
            values = [self._literal()]
            while self._token.text == "," and self._token.kind == "sign":
                self._at += 1
                values.append(self._literal())
            self._take_sign(")")
            return In(operand=operand, values=tuple(values), place=place)
        if self._takes_word("BETWEEN"):
            low = self._literal()
            self._take_word("AND")
            ends = ((">=", low), ("<=", self._literal()))
            return And(
                parts=tuple(Comparison(operator=sign, left=operand, right=end, place=place) for sign, end in ends)
            )
        if self._takes_word("LIKE"):
            pattern = self._literal()
            if not isinstance(pattern.value, str) or pattern.word:
                self._at -= 1
                self._fail("a pattern in quotes")
            return Like(operand=operand, pattern=pattern.value, place=place)
        return None

    def _operand(self) -> Operand:
        token = self._token
        if token.kind == "quoted":
            self._at += 1
            return ColumnName(name=token.text[1:-1].replace("``", "`").lower(), place=token.place)
        is_name = token.kind == "word" and token.text.upper() not in _WORDS
        if is_name and not (token.text.upper() in ("DATE", "TIMESTAMP") and self._tokens[self._at + 1].kind == "text"):
            self._at += 1
            return ColumnName(name=token.text.lower(), place=token.place)
        return self._literal()

    def _literal(self) -> Literal:
        token, word = self._token, self._token.text.upper()
        if token.kind == "number":
            number = self._number()
            self._at += 1
            return Literal(value=number, place=token.place)
        if token.kind == "text":
            self._at += 1
            return Literal(value=_unquote(token.text), place=token.place)
        if token.kind == "word" and word in ("TRUE", "FALSE", "NULL"):
            self._at += 1
            return Literal(value={"TRUE": True, "FALSE": False}.get(word), place=token.place)
        if token.kind == "word" and word in ("DATE", "TIMESTAMP") and self._tokens[self._at + 1].kind == "text":
            self._at += 2
            return Literal(value=_unquote(self._tokens[self._at - 1].text), place=token.place, word=word)
        raise self._error("a column or a literal" if word not in _WORDS or token.kind != "word" else "a literal")

    def _number(self) -> Decimal:
        try:
            return Decimal(self._token.text)
        except InvalidOperation as error:
            raise self._error("a number whose exponent has at most 17 digits") from error

    @property
    def _token(self) -> _Token:
        return self._tokens[self._at]

    def _takes_word(self, word: str) -> bool:
        if self._token.kind == "word" and self._token.text.upper() == word:
            self._at += 1
            return True
        return False

    def _take_word(self, word: str) -> None:
        if not self._takes_word(word):
            self._fail(word)

    def _take_sign(self, sign: str) -> None:
        if self._token.kind != "sign" or self._token.text != sign:
            self._fail(repr(sign))
        self._at += 1

    def _fail(self, expectation: str) -> NoReturn:
        raise self._error(expectation)

    def _error(self, expectation: str) -> BadExpression:
        token = "the end" if self._token.kind == "end" else repr(self._token.text)
        return filter_error(self._text, self._token.place, f"{token} was found, {expectation} was expected")


def _negate(expression: Expression, negated: bool) -> Expression:
    return Not(part=expression) if negated else expression


def _unquote(text: str) -> str:
    return text[1:-1].replace(text[0] * 2, text[0])


def seconds_and_nanos(text: str, *, is_date: bool = False) -> tuple[int, int]:
    """Parses a date or timestamp with ASCII digits: wall-clock seconds since 1970, and nanoseconds.

    A date counts as its midnight.
    Example: ``1970-01-02 00:00:00.5`` is (86400, 500000000).

    Raises:
        ValueError: ``text`` is not a timestamp, or with ``is_date`` not a date; the message has the expected form.
    """
    match = _DATE_AND_TIME.fullmatch(text.strip())
    if match is None or (is_date and match["time"]):
        raise ValueError(f"{'yyyy-mm-dd' if is_date else 'yyyy-mm-dd hh:mm:ss.fraction'} was expected")
    year, month, day, hour, minute, second = (int(part or 0) for part in match.group(1, 2, 3, 5, 6, 7))
    since = datetime.datetime(year, month, day, hour, minute, second) - _EPOCH
    return since.days * 86_400 + since.seconds, int((match["fraction"] or "").ljust(_DIGITS, "0"))

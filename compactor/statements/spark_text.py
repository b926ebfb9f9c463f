"""Texts for Spark: written anew from the words that were parsed, and only if each function and sign is allowed.

Spark reads comments, raw texts, ``$$`` and blanks otherwise than the parser does, so that one of them could hide from the
parser what Spark does. What Spark gets has none of these: one word after the other, as the parser has understood them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence

from compactor.base.errors import NotSupported
from compactor.locking.accesses import Name
from compactor.statements import parsed_actions
from compactor.statements.parsed_actions import Query, Span
from compactor.statements.spark_functions import FUNCTIONS, NO_CALLS, REFUSED
from compactor.statements.tokens import Token, split

_REFUSED_SIGNS = frozenset("${}@")
_CLOSE = ".,()[]"  #: beside these, no two words become one
_QUERIES = frozenset(("select", "with", "from", "values", "table"))
_START = Token(kind="sign", value=";")


class SparkText:
    """A whole text, of whose statements Spark is given queries and expressions."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = [token for statement in split(text) for token in statement]
        self._starts = [token.start for token in self._tokens]

    def functions_to_look_up(self, action: parsed_actions.Action) -> tuple[Token, ...]:
        """Checks all that Spark is to be given of an action; returns the calls of functions that are none of Spark's.

        Raises:
            NotSupported: something of it reaches code, files or another catalog, or Spark may read it in another way.
        """
        queries, expressions = _parts(action)
        calls: list[Token] = []
        for query in queries:
            for place in query.places:
                if "/" in place.table.table:
                    raise NotSupported(f"statement: {place.table}: no file is read by its path; nothing was done")
            calls += self._checked([token for piece in query.pieces for token in self._between(piece)], is_query=True)
        for expression in expressions:
            calls += self._checked(self._between(expression), is_query=False)
        return tuple(calls)

    def whole_queries(self, action: parsed_actions.Action, name: str) -> list[str]:
        """Returns the queries of an action as Spark parses them, where each table is called ``name``."""
        texts = [self.query(query, lambda _: name).format() for query in _parts(action)[0]]
        match action:
            case parsed_actions.MultiInsert(source=Query(), alias=alias):
                return [texts[0], *(f"FROM {name} AS {_quoted(alias)} {text}" for text in texts[1:])]
            case parsed_actions.Update(nested=Query()) | parsed_actions.Delete(nested=Query()):
                return [f"SELECT 1 FROM {name} WHERE ({text})" for text in texts]
        return texts

    def expression(self, span: Span) -> str:
        """Returns an expression as Spark is given it."""
        return _joined(list(self._written(self._between(span))))

    def query(self, query: Query, names: Callable[[Name], str]) -> str:
        """Returns a query with other names for its tables; each goes on by its own, where it has no alias.

        Args:
            names: returns the new name, as a field of ``str.format``, whose rules for braces the result follows.
        """
        written: list[tuple[Token, str]] = []
        places = {place.start: place for place in query.places}
        tokens = [token for piece in query.pieces for token in self._between(piece)]
        starts = _defined(tokens)
        defined = {token.value for token in tokens if token.start in starts}
        for piece in query.pieces:
            skipped_to = 0
            for token, text in self._written(self._between(piece)):
                place = places.get(token.start)
                if place is not None:
                    alias = "" if place.aliased else f" AS {_quoted(place.table.table)}"
                    written.append((_START, f"{names(place.table)}{alias}"))
                    skipped_to = place.end
                elif token.start >= skipped_to:
                    if token.kind in ("word", "quoted") and token.value in defined and text.lower() != text:
                        text = _quoted(token.value)  # else another case means another table to Spark, if it is told so
                    written.append((token, text.replace("{", "{{").replace("}", "}}")))
        return _joined(written)

    def _between(self, span: Span) -> list[Token]:
        return self._tokens[bisect_left(self._starts, span[0]) : bisect_left(self._starts, span[1])]

    def _written(self, tokens: Sequence[Token]) -> Iterator[tuple[Token, str]]:
        for token in tokens:
            raw = self._text[token.start : token.end]
            # Spark takes some of these for blanks; in quotes each is part of the name
            yield token, _quoted(raw) if token.kind == "word" and not raw.isascii() else raw

    def _checked(self, tokens: Sequence[Token], *, is_query: bool) -> list[Token]:
        """Checks tokens that Spark is to be given; returns the calls of functions that are on no list."""
        calls = []
        defined = _defined(tokens)
        padded = [_START, _START, *tokens, _START]
        for before, token, after in zip(padded[1:], padded[2:], padded[3:], strict=False):
            self._check_token(before, token, after, is_query)
            if not _is_sign(after, "("):
                continue
            if token.kind == "text" or _is_sign(token, ")", "]"):
                raise _not_passed_on(token, f"{token} before a parenthesis calls what cannot be known")
            if token.kind in ("word", "quoted"):
                calls += _call(before, token, is_defined=token.start in defined)
        return calls

    def _check_token(self, before: Token, token: Token, after: Token, is_query: bool) -> None:
        if "${" in self._text[token.start : token.end] or _is_sign(token, *_REFUSED_SIGNS):
            raise _not_passed_on(token, "$, @, { and } are Spark's to replace; only a text may have them, and never ${")
        if _is_sign(token, "|") and _is_sign(after, ">"):
            raise _not_passed_on(token, "|> is not read here; write the query with SELECT")
        if token.kind == "text" and _is_word(before, "r") and before.end == token.start:
            raise _not_passed_on(
                before, "a raw text is not read here; write it without r, with \\\\ for each backslash"
            )
        if _is_word(token, "using") and not _is_sign(after, "("):
            raise _not_passed_on(token, "USING is only read before the columns of a join, and runs no script")
        if _is_word(token, "table") and after.kind in ("word", "quoted"):
            raise _not_passed_on(token, f"TABLE {after} is no query of the list; write SELECT * FROM {after}")
        if not is_query and _is_sign(before, "(") and _is_word(token, *_QUERIES):
            raise _not_passed_on(token, "a query is within an expression that may have none")


def _call(before: Token, token: Token, *, is_defined: bool) -> list[Token]:
    """Checks the name before a parenthesis; returns it if it is a call of a function on no list."""
    name = token.value
    if name in REFUSED:
        raise _not_passed_on(token, f"{name} is refused: {REFUSED[name]}")
    if _is_sign(before, "."):
        raise _not_passed_on(token, f"{name} has a name before it; functions are called by their own name alone")
    if is_defined or name in FUNCTIONS or (token.kind == "word" and name in NO_CALLS):
        return []
    return [] if _is_sign(before, ")") or _is_word(before, "as") else [token]


def _defined(tokens: Sequence[Token]) -> frozenset[int]:
    """Returns where WITH defines a name, which columns may follow in parentheses."""
    places: set[int] = set()
    for number, token in enumerate(tokens):
        if _is_word(token, "with"):
            places.update(_defined_by(tokens[number + 1 :]))
    return frozenset(places)


def _defined_by(tokens: Sequence[Token]) -> Iterator[int]:
    """Yields where the names of one WITH are: each is followed by columns in parentheses, AS and a query in parentheses."""
    at = 1 if tokens and _is_word(tokens[0], "recursive") else 0
    while at < len(tokens) and tokens[at].kind in ("word", "quoted"):
        yield tokens[at].start
        while at < len(tokens) and not _is_word(tokens[at], "as"):
            at = _behind_group(tokens, at)
        at = _behind_group(tokens, at + 1)
        if at >= len(tokens) or not _is_sign(tokens[at], ","):
            return
        at += 1


def _behind_group(tokens: Sequence[Token], at: int) -> int:
    """Returns the place behind a token, or behind the parentheses that it opens."""
    depth = 0
    while at < len(tokens):
        if tokens[at].kind == "sign":
            depth += {"(": 1, ")": -1}.get(tokens[at].value, 0)
        at += 1
        if depth <= 0:
            break
    return at


def _parts(action: parsed_actions.Action) -> tuple[list[Query], list[Span]]:
    """Returns the queries and expressions of an action that Spark evaluates."""
    match action:
        case parsed_actions.NeedsSpark(query=query) | parsed_actions.CreateTableAs(query=query):
            return [query], []
        case parsed_actions.Select(query=query):
            return [] if query is None else [query], []
        case parsed_actions.MultiInsert(inserts=inserts, source=source):
            return [*([] if source is None else [source]), *(one.query for one in inserts)], []
        case parsed_actions.Update(values=values, condition=condition, nested=nested):
            return _condition(condition, nested, values)
        case parsed_actions.Delete(condition=condition, nested=nested):
            return _condition(condition, nested, ())
        case parsed_actions.Merge(source=source, on=on, clauses=clauses):
            expressions = [on, *(clause.condition for clause in clauses if clause.condition is not None)]
            expressions += [value for clause in clauses for value in clause.values]
            return [source] if isinstance(source, Query) else [], expressions
    return [], []


def _condition(condition: Span | None, nested: Query | None, values: Sequence[Span]) -> tuple[list[Query], list[Span]]:
    if nested is not None:
        return [nested], list(values)
    return [], [*values, *([] if condition is None else [condition])]


def _joined(written: Sequence[tuple[Token, str]]) -> str:
    """Puts blanks between words, but not within operators and numbers, or at a parenthesis without one."""
    joined: list[str] = []
    before = _START
    for token, word in written:
        is_close = before.kind == token.kind == "sign" or _is_sign(before, *_CLOSE) or _is_sign(token, *_CLOSE)
        joined += [word] if not joined or (is_close and before.end == token.start) else [" ", word]
        before = token
    return "".join(joined)


def _is_sign(token: Token, *signs: str) -> bool:
    return token.kind == "sign" and token.value in signs


def _is_word(token: Token, *words: str) -> bool:
    return token.kind == "word" and token.value in words


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def _not_passed_on(token: Token, why: str) -> NotSupported:
    return NotSupported(f"statement: {token.place}: {why}; nothing was done (docs/sql.md)")

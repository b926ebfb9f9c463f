"""Renders texts for Spark from the parsed words, after checking that every function and sign is allowed.

Spark reads comments, raw texts, ``$$`` and blanks differently than the parser, so they could hide from the parser what Spark
does. The text for Spark has none of them: it is the parser's words, one after the other.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence

from compactor.base.errors import NotSupported
from compactor.locking.statement_rules import Name
from compactor.statements import parsed_actions
from compactor.statements.parsed_actions import Query, Span
from compactor.statements.spark_functions import FUNCTIONS, NO_CALLS, REFUSED
from compactor.statements.tokens import Token, split_statements

_REFUSED_SIGNS = frozenset("${}@")
_CLOSE = ".,()[]"  #: next to these, no blank is needed between words
_QUERIES = frozenset(("select", "with", "from", "values", "table"))
_START = Token(kind="sign", value=";")


class SparkText:
    """A whole text; renders its queries and expressions for Spark."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = [token for statement in split_statements(text) for token in statement]
        self._starts = [token.start for token in self._tokens]

    def functions_to_look_up(self, action: parsed_actions.Action) -> tuple[Token, ...]:
        """Checks everything of an action that Spark gets; returns calls of functions that are not Spark's own.

        Raises:
            NotSupported: a part reaches code, files or another catalog, or Spark may read it differently.
        """
        queries, expressions = _parts(action)
        calls: list[Token] = []
        for query in queries:
            for place in query.places:
                if "/" in place.table.table:
                    raise NotSupported(f"statement: {place.table}: files are not read by path; nothing was done")
            calls += self._check_tokens(
                [token for piece in query.pieces for token in self._between(piece)], is_query=True
            )
        for expression in expressions:
            calls += self._check_tokens(self._between(expression), is_query=False)
        return tuple(calls)

    def whole_queries(self, action: parsed_actions.Action, name: str) -> list[str]:
        """Returns the queries of an action as Spark parses them, with every table called ``name``."""
        texts = [self.query(query, lambda _: name).format() for query in _parts(action)[0]]
        match action:
            case parsed_actions.MultiInsert(source=Query(), alias=alias):
                return [texts[0], *(f"FROM {name} AS {_quote(alias)} {text}" for text in texts[1:])]
            case parsed_actions.Update(nested=Query()) | parsed_actions.Delete(nested=Query()):
                return [f"SELECT 1 FROM {name} WHERE ({text})" for text in texts]
        return texts

    def expression(self, span: Span) -> str:
        """Renders an expression for Spark."""
        return _join_words(list(self._render_tokens(self._between(span))))

    def query(self, query: Query, names: Callable[[Name], str]) -> str:
        """Renders a query with other names for its tables; each table without an alias gets its own name as alias.

        Args:
            names: returns the new name as a field of ``str.format``; braces in the result are doubled accordingly.
        """
        written: list[tuple[Token, str]] = []
        places = {place.start: place for place in query.places}
        tokens = [token for piece in query.pieces for token in self._between(piece)]
        starts = _find_defined_names(tokens)
        defined = {token.value for token in tokens if token.start in starts}
        for piece in query.pieces:
            skipped_to = 0
            for token, text in self._render_tokens(self._between(piece)):
                place = places.get(token.start)
                if place is not None:
                    alias = "" if place.aliased else f" AS {_quote(place.table.table)}"
                    written.append((_START, f"{names(place.table)}{alias}"))
                    skipped_to = place.end
                elif token.start >= skipped_to:
                    if token.kind in ("word", "quoted") and token.value in defined and text.lower() != text:
                        text = _quote(token.value)  # Spark may be set to distinguish names by case
                    written.append((token, text.replace("{", "{{").replace("}", "}}")))
        return _join_words(written)

    def _between(self, span: Span) -> list[Token]:
        return self._tokens[bisect_left(self._starts, span[0]) : bisect_left(self._starts, span[1])]

    def _render_tokens(self, tokens: Sequence[Token]) -> Iterator[tuple[Token, str]]:
        for token in tokens:
            raw = self._text[token.start : token.end]
            # Spark takes some of these characters for blanks; in quotes they are part of the name
            yield token, _quote(raw) if token.kind == "word" and not raw.isascii() else raw

    def _check_tokens(self, tokens: Sequence[Token], *, is_query: bool) -> list[Token]:
        """Checks tokens for Spark; returns the calls of functions that are on no list."""
        calls = []
        defined = _find_defined_names(tokens)
        padded = [_START, _START, *tokens, _START]
        for before, token, after in zip(padded[1:], padded[2:], padded[3:], strict=False):
            self._check_token(before, token, after, is_query)
            if not _is_sign(after, "("):
                continue
            if token.kind == "text" or _is_sign(token, ")", "]"):
                raise _refuse(token, f"{token} before a parenthesis calls what cannot be known")
            if token.kind in ("word", "quoted"):
                calls += _check_call(before, token, is_defined=token.start in defined)
        return calls

    def _check_token(self, before: Token, token: Token, after: Token, is_query: bool) -> None:
        if "${" in self._text[token.start : token.end] or _is_sign(token, *_REFUSED_SIGNS):
            raise _refuse(token, "$, @, { and } are Spark's to replace; only a text may have them, and never ${")
        if _is_sign(token, "|") and _is_sign(after, ">"):
            raise _refuse(token, "|> is not supported; write the query with SELECT")
        if token.kind == "text" and _is_word(before, "r") and before.end == token.start:
            raise _refuse(before, "raw texts are not supported; write it without r, with \\\\ for each backslash")
        if _is_word(token, "using") and not _is_sign(after, "("):
            raise _refuse(token, "USING is only read before the columns of a join, and runs no script")
        if _is_word(token, "table") and after.kind in ("word", "quoted"):
            raise _refuse(token, f"TABLE {after} is not on the list of queries; write SELECT * FROM {after}")
        if not is_query and _is_sign(before, "(") and _is_word(token, *_QUERIES):
            raise _refuse(token, "a query is within an expression that may have none")


def _check_call(before: Token, token: Token, *, is_defined: bool) -> list[Token]:
    """Checks the name before a parenthesis; returns it if it calls a function that is on no list."""
    name = token.value
    if name in REFUSED:
        raise _refuse(token, f"{name} is refused: {REFUSED[name]}")
    if _is_sign(before, "."):
        raise _refuse(token, f"{name} has a name before it; functions are called by their own name alone")
    if is_defined or name in FUNCTIONS or (token.kind == "word" and name in NO_CALLS):
        return []
    return [] if _is_sign(before, ")") or _is_word(before, "as") else [token]


def _find_defined_names(tokens: Sequence[Token]) -> frozenset[int]:
    """Returns where WITH defines names; columns in parentheses may follow these."""
    places: set[int] = set()
    for number, token in enumerate(tokens):
        if _is_word(token, "with"):
            places.update(_find_names_of_with(tokens[number + 1 :]))
    return frozenset(places)


def _find_names_of_with(tokens: Sequence[Token]) -> Iterator[int]:
    """Yields where the names of one WITH are: ``name (columns) AS (query), ...``."""
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
            return [*([] if source is None else [source]), *(insert.query for insert in inserts)], []
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


def _join_words(written: Sequence[tuple[Token, str]]) -> str:
    """Joins words with blanks, except within operators and numbers, or at a parenthesis that had none."""
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


def _quote(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def _refuse(token: Token, why: str) -> NotSupported:
    return NotSupported(f"statement: {token.place}: {why}; nothing was done (docs/sql.md)")

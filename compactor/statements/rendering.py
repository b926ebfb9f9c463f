"""Renders tokens as text in the grammar of filters, which has no escapes in texts except doubled quotes."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from compactor.statements.tokens import Token

_OPERANDS = ("word", "quoted", "text", "number")
_BEFORE_SIGN = frozenset(("and", "or", "not", "between", "in", "like", "is", "where", "set", "by"))


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

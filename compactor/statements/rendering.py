"""Writes tokens as text again: in the grammar of filters, whose texts know no escapes but doubled quotes."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from compactor.statements.tokens import Token

_OPERANDS = ("word", "quoted", "text", "number")
_BEFORE_SIGN = frozenset(("and", "or", "not", "between", "in", "like", "is", "where", "set", "by"))


def rendered(found: Sequence[Token], qualifiers: Collection[str] = ()) -> str:
    """Returns the tokens as a text of filters: columns without the names of ``qualifiers`` before them."""
    parts: list[str] = []
    at = 0
    while at < len(found):
        token = found[at]
        if _qualifies(found, at, qualifiers):
            at += 2
            continue
        if token.kind == "sign" and token.value in ("-", "+") and _is_sign(found, at):
            parts.append(token.value + found[at + 1].value)
            at += 2
            continue
        parts.append(_written(token))
        at += 1
    return " ".join(parts)


def _qualifies(found: Sequence[Token], at: int, qualifiers: Collection[str]) -> bool:
    following = found[at + 1 : at + 3]
    return (
        found[at].kind in ("word", "quoted")
        and found[at].value in qualifiers
        and len(following) == 2
        and (following[0].kind, following[0].value) == ("sign", ".")
        and following[1].kind in ("word", "quoted")
        and not (at and found[at - 1].value == ".")
    )


def _is_sign(found: Sequence[Token], at: int) -> bool:
    """Tells whether the plus or minus at ``at`` belongs to the number that follows it."""
    if at + 1 >= len(found) or found[at + 1].kind != "number":
        return False
    before = found[at - 1] if at else None
    if before is None or (before.kind == "word" and before.value in _BEFORE_SIGN):
        return True
    return before.kind not in _OPERANDS and before.value != ")"


def _written(token: Token) -> str:
    if token.kind == "text":
        return "'" + token.value.replace("'", "''") + "'"
    return f"`{token.value.replace('`', '``')}`" if token.kind == "quoted" else token.value


def as_type(found: Sequence[Token]) -> str:
    """Returns the tokens as a type of Hive: blanks only between words."""
    parts: list[str] = []
    for token in found:
        if parts and token.kind != "sign" and parts[-1][-1] not in "(<,:>)":
            parts.append(" ")
        parts.append(_written(token))
    return "".join(parts)

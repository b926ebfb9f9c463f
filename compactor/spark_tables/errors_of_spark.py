"""Finds this package's own error in what Spark makes of it: a text with the trace of the process that raised it."""

from __future__ import annotations

import re

from compactor.base import errors

_RAISED = re.compile(r"compactor\.base\.errors\.(\w+): ([^\n]*)")
_IN_SQL = re.compile(r"compactor: NotConforming: ([^\n]*)")


def typed(error: BaseException) -> errors.CompactorError | None:
    """Returns the error of this package that ``error`` of Spark was; None if it was none, or another one."""
    text = str(error)
    if found := _IN_SQL.search(text):
        return errors.NotConforming(_without_hints(found[1]))
    raised = _RAISED.findall(text)
    if not raised:
        return None
    name, message = raised[-1]  # the last one of a chain is the one that left the process
    kind = getattr(errors, name, None)
    if not (isinstance(kind, type) and issubclass(kind, errors.CompactorError)):
        return None
    return errors.WriteConflict(message, _winner(message)) if kind is errors.WriteConflict else kind(message)


def _winner(message: str) -> int:
    """Returns the transaction that a WriteConflict's text names first."""
    found = re.search(r"transaction (\d+)", message)
    return int(found[1]) if found else 0


def _without_hints(message: str) -> str:
    return message.partition(" SQLSTATE: ")[0].rstrip(". ")

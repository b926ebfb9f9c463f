"""What an error of a database driver means for the transaction that met it."""

from __future__ import annotations

import enum
import re

from sqlalchemy.exc import DBAPIError


class Trouble(enum.Enum):
    """Kinds of errors."""

    BUSY = "busy"  #: rolled back for another transaction's sake, or its lock stood in the way: repeat it
    LOST = "lost"  #: the connection broke, or there is none: repeat what was not committing
    DENIED = "denied"
    MISSING = "missing"
    BUG = "bug"  #: a broken constraint, a wrong statement: not the database's fault
    OTHER = "other"

    @property
    def advice(self) -> str:
        """What to do, to be put behind the database's own words."""
        return _ADVICE.get(self, "")


_ADVICE = {
    Trouble.DENIED: "; grant this user what is missing, or use mode observe, which only reads",
    Trouble.MISSING: "; the schema is not what VERSION says, or another one comes first on the search path",
}


class Retryable:
    """``hive.txn.retryable.sqlex.regex``: patterns of a site's own errors that are worth another try."""

    def __init__(self, patterns: str = "") -> None:
        """``patterns`` are separated by commas that no blank follows, as Hive splits them."""
        self._patterns = tuple(re.compile(pattern) for pattern in re.split(r",(?=\S)", patterns) if pattern)

    def matches(self, error: DBAPIError) -> bool:
        """Whether one of the patterns is found in the message, the SQLSTATE or the text that Hive makes of them."""
        if not self._patterns:
            return False
        original = error.orig
        args: tuple[object, ...] = getattr(original, "args", ())
        code = args[0] if args and isinstance(args[0], int) else 0
        message = str(args[-1] if code else original)
        state = str(getattr(original, "sqlstate", None) or "")
        texts = (message, state, f"{message} (SQLState={state}, ErrorCode={code})")
        return any(pattern.search(text) for pattern in self._patterns for text in texts)

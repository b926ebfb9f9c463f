"""An error of a unit as a value: it comes back from an executor with its kind and message intact."""

from __future__ import annotations

from dataclasses import dataclass

from compactor.base import errors


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """``kind`` is a class of ``compactor.base.errors``; ``lacks_memory`` is true if the unit may succeed by itself;
    ``winner`` is that of a WriteConflict."""

    kind: str
    message: str
    lacks_memory: bool = False
    winner: int = 0

    @classmethod
    def of(cls, error: errors.CompactorError, *, lacks_memory: bool = False) -> Failure:
        winner = error.winner if isinstance(error, errors.WriteConflict) else 0
        return cls(kind=type(error).__name__, message=str(error), lacks_memory=lacks_memory, winner=winner)


def error_of(failure: Failure) -> errors.CompactorError:
    """Returns the error that the executor raised."""
    if failure.kind == errors.WriteConflict.__name__:
        return errors.WriteConflict(failure.message, failure.winner)
    kind = getattr(errors, failure.kind, None)
    if not isinstance(kind, type) or not issubclass(kind, errors.CompactorError):
        kind = errors.CompactorError
    return kind(failure.message)

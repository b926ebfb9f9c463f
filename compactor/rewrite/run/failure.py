"""An error of a unit as a value, which keeps its kind and message on the way from an executor."""

from __future__ import annotations

from dataclasses import dataclass

from compactor.base import errors


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """An error as a value."""

    kind: str  #: a class of ``compactor.base.errors``
    message: str
    lacks_memory: bool = False  #: the unit may succeed if nothing else runs
    winner: int = 0  #: of a ``WriteConflict``

    @classmethod
    def from_error(cls, error: errors.CompactorError, *, lacks_memory: bool = False) -> Failure:
        winner = error.winner if isinstance(error, errors.WriteConflict) else 0
        return cls(kind=type(error).__name__, message=str(error), lacks_memory=lacks_memory, winner=winner)


def to_error(failure: Failure) -> errors.CompactorError:
    """Returns the error that the executor raised."""
    if failure.kind == errors.WriteConflict.__name__:
        return errors.WriteConflict(failure.message, failure.winner)
    kind = getattr(errors, failure.kind, None)
    if not isinstance(kind, type) or not issubclass(kind, errors.CompactorError):
        kind = errors.CompactorError
    return kind(failure.message)

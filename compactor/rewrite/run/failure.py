"""An error of a unit as a value: it comes back from an executor with its kind and message intact."""

from __future__ import annotations

from dataclasses import dataclass

from compactor import errors


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """``kind`` is a class of ``compactor.errors``."""

    kind: str
    message: str

    @classmethod
    def of(cls, error: errors.CompactorError) -> Failure:
        return cls(kind=type(error).__name__, message=str(error))


def error_of(failure: Failure) -> errors.CompactorError:
    """Returns the error that the executor raised."""
    kind = getattr(errors, failure.kind, errors.CompactorError)
    error = kind(failure.message)
    assert isinstance(error, errors.CompactorError)
    return error

"""A group of queue entries that go through steps together, and each of which may fail alone.

A member is an entry in one phase of its work. Each phase is a class that adds the results of one step, so the signature
of a step says how far an entry must have come.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import fields
from functools import cache, partial
from typing import Any, Protocol, TypeVar

from compactor.base.errors import CompactorError, failing_alone
from compactor.compaction.queue_entry import Entry
from compactor.site.threads import SideBySide


class Member(Protocol):
    """An entry of the queue in one phase of its work."""

    @property
    def entry(self) -> Entry: ...


_Before = TypeVar("_Before", bound=Member)
_After = TypeVar("_After", bound=Member)
_Phase = TypeVar("_Phase", bound=Member)


class EntryGroup(ABC):
    """The members that have not ended yet, each in its latest phase."""

    def __init__(self, members: Iterable[Member]) -> None:
        self._live: dict[int, Any] = {}
        self.enter(members)

    @property
    def live(self) -> list[Any]:
        return list(self._live.values())

    def remaining(self, members: Iterable[_Before]) -> list[_Before]:
        """Returns the members that have not ended."""
        return [member for member in members if member.entry.id in self._live]

    def enter(self, members: Iterable[Member]) -> None:
        """Remembers the new phase of members. It decides what is undone if a member fails."""
        for member in members:
            self._live[member.entry.id] = member

    def leave(self, member: Member) -> None:
        """Takes a member out of the group without an outcome."""
        self._live.pop(member.entry.id, None)

    def fail(self, member: Member, error: CompactorError) -> None:
        """Takes a member out of the group, and ends it with an error."""
        self.leave(member)
        self._end_failed(member, error)

    @abstractmethod
    def _end_failed(self, member: Any, error: CompactorError) -> None:
        """Ends a member that has left the group."""

    def advance(
        self, step: Callable[[_Before], _After | None], members: Iterable[_Before], threads: SideBySide | None = None
    ) -> list[_After]:
        """Runs ``step`` for each member, and returns the members in their new phase.

        A member whose step fails drops out. A step that has ended its member returns None.

        Args:
            threads: run steps that touch only their own member; without threads, the steps run in turn.
        """
        every = list(members)
        attempt = partial(_try, step)
        results = map(attempt, every) if threads is None else threads.map(attempt, every)
        further: list[_After] = []
        for member, result in zip(every, results, strict=True):
            if isinstance(result, CompactorError):
                self.fail(member, result)
            elif result is not None:
                self._live[member.entry.id] = result
                further.append(result)
        return further

    def each(
        self, step: Callable[[_Before], object], members: Iterable[_Before], threads: SideBySide | None = None
    ) -> list[_Before]:
        """Runs ``step`` for each member, and returns the remaining ones. A member whose step fails drops out."""
        every = list(members)

        def run(member: _Before) -> None:
            step(member)

        self.advance(run, every, threads)
        return self.remaining(every)

    def fail_each(
        self, error_of: Callable[[_Before], CompactorError | None], members: Iterable[_Before]
    ) -> list[_Before]:
        """Fails the members that have an error, and returns the remaining ones."""
        every = list(members)
        for member in every:
            if (error := error_of(member)) is not None:
                self.fail(member, error)
        return self.remaining(every)


def _try(step: Callable[[_Before], _After | None], member: _Before) -> _After | CompactorError | None:
    try:
        with failing_alone(member.entry.entity):
            return step(member)
    except CompactorError as error:
        return error


def advance_to(phase: type[_Phase], before: Member, **additions: Any) -> _Phase:
    """Returns ``before`` in another ``phase``, usually the next one, with the fields that its step adds."""
    classes: tuple[Any, Any] = phase, type(before)
    kept = {name: getattr(before, name) for name in _shared_fields(*classes) if name not in additions}
    return phase(**kept, **additions)


@cache
def _shared_fields(phase: Any, before: Any) -> tuple[str, ...]:
    """Returns the names of the fields that both phase classes have."""
    earlier_names = {field.name for field in fields(before)}
    return tuple(field.name for field in fields(phase) if field.name in earlier_names)

"""The transactions of one application in which others write, by the name of what is held."""

from __future__ import annotations

import logging
import threading
from typing import Generic, Protocol, TypeVar

from compactor.base.errors import CompactorError, TransactionAborted
from compactor.spark_tables.keeper.held_transaction import Held
from compactor.spark_tables.messages import Hold

log = logging.getLogger(__name__)


class _InTransaction(Protocol):
    @property
    def held(self) -> Held: ...


_Work = TypeVar("_Work", bound=_InTransaction)


class UnderWay(Generic[_Work]):
    """Works that have begun and not ended. Requests come side by side, and whoever takes one out is alone with it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._works: dict[str, _Work] = {}

    def __bool__(self) -> bool:
        return bool(self._works)

    def put(self, work: _Work) -> None:
        """Adds one that has begun."""
        with self._lock:
            self._works[work.held.name] = work

    def find(self, name: str) -> _Work | None:
        """Returns one; None if it is not under way."""
        with self._lock:
            return self._works.get(name)

    def take(self, name: str) -> _Work | None:
        """Takes one out, and returns it; None if it is not under way."""
        with self._lock:
            return self._works.pop(name, None)

    def must_take(self, hold: Hold) -> _Work:
        """Takes out one that is to be committed, and returns it.

        Raises:
            TransactionAborted: it is not under way: lost, or ended before.
        """
        work = self.take(hold.name)
        if work is None:
            raise TransactionAborted(
                f"transaction {hold.txn} is no longer held; nothing was committed, write the rows again"
            )
        return work

    def every(self) -> list[_Work]:
        """Returns those that are under way now."""
        with self._lock:
            return list(self._works.values())

    def abort(self, name: str) -> bool:
        """Ends one without a trace; returns false if it is not under way."""
        work = self.take(name)
        if work is None:
            return False
        txn = work.held.txn.id
        try:
            work.held.abort()
        except CompactorError as error:
            log.warning("transaction %d: %s; it times out", txn, error)
        log.info("transaction %d, in which rows were written, is aborted", txn)
        return True

    def abort_all(self) -> None:
        """Ends all of them."""
        for work in self.every():
            self.abort(work.held.name)

"""The open write transactions of one application, by name."""

from __future__ import annotations

import logging
import threading
from typing import Generic, Protocol, TypeVar

from compactor.base.errors import CompactorError, TransactionAborted
from compactor.spark_tables.keeper.held_transaction import HeldTransaction
from compactor.spark_tables.messages import Hold

log = logging.getLogger(__name__)


class _InTransaction(Protocol):
    @property
    def held(self) -> HeldTransaction: ...


_Work = TypeVar("_Work", bound=_InTransaction)


class HeldByName(Generic[_Work]):
    """Writes of one kind that are under way. Requests run side by side: only one of them can take a write out."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._works: dict[str, _Work] = {}

    def __bool__(self) -> bool:
        return bool(self._works)

    def put(self, work: _Work) -> None:
        """Adds a write that has begun."""
        with self._lock:
            self._works[work.held.name] = work

    def find(self, name: str) -> _Work | None:
        """Returns the write of this name; None if it is not under way."""
        with self._lock:
            return self._works.get(name)

    def take(self, name: str) -> _Work | None:
        """Removes a write and returns it; None if it is not under way."""
        with self._lock:
            return self._works.pop(name, None)

    def must_take(self, hold: Hold) -> _Work:
        """Removes the write that is to be committed, and returns it.

        Raises:
            TransactionAborted: the write was lost or has already ended.
        """
        work = self.take(hold.name)
        if work is None:
            raise TransactionAborted(
                f"transaction {hold.txn} is no longer held; nothing was committed, write the rows again"
            )
        return work

    def every(self) -> list[_Work]:
        """Returns the writes that are under way now."""
        with self._lock:
            return list(self._works.values())

    def abort(self, name: str) -> bool:
        """Aborts a write, which leaves no trace; returns false if it is not under way."""
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
        """Aborts every write that is under way."""
        for work in self.every():
            self.abort(work.held.name)

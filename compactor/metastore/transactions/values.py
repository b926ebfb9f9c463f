"""Transactions as they are asked for and shown."""

from __future__ import annotations

from dataclasses import dataclass

from compactor.ids import TxnId
from compactor.metastore.transactions.rows import OPEN, TxnType


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTransaction:
    """A transaction that has not committed. Times are epoch milliseconds of the database's clock."""

    id: TxnId
    user: str
    host: str
    type: TxnType
    started: int
    last_heartbeat: int
    agent: str | None = None
    state: str = OPEN  #: ``a`` among those that ``unfinished`` tells


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTransaction:
    """A transaction to be opened, and for whom; ``agent`` says who works under it."""

    user: str
    host: str
    type: TxnType = TxnType.DEFAULT
    agent: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyValue:
    """A table property that changes with a commit, or not at all: how a sink remembers up to where it wrote."""

    table_id: int
    key: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatRange:
    """Those of a range that are not alive; ``no_such`` has the committed ones too, as Hive's answer has."""

    no_such: frozenset[TxnId] = frozenset()
    aborted: frozenset[TxnId] = frozenset()

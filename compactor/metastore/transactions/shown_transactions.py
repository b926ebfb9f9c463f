"""Transactions as they are asked for and shown."""

from __future__ import annotations

from dataclasses import dataclass

from compactor.acid import txn_states
from compactor.base.ids import TxnId
from compactor.metastore.transactions.transaction_rows import TxnType


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
    state: str = txn_states.OPEN  #: ``a`` for some of those that ``unfinished`` returns


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTransaction:
    """A transaction to open, and its user; ``agent`` is the process that opens it."""

    user: str
    host: str
    type: TxnType = TxnType.DEFAULT
    agent: str | None = None

    def row(self, last_type: int, now: int) -> dict[str, object]:
        """Returns the row of TXNS, without its id, of the transaction opened at ``now``.

        A Hive whose last TXN_TYPE is below the type knows it as an ordinary transaction.
        """
        return {
            "TXN_STATE": txn_states.OPEN,
            "TXN_STARTED": now,
            "TXN_LAST_HEARTBEAT": now,
            "TXN_USER": self.user,
            "TXN_HOST": self.host,
            "TXN_AGENT_INFO": self.agent,
            "TXN_TYPE": int(self.type if self.type <= last_type else TxnType.DEFAULT),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyValue:
    """A table property that a commit changes, such as the progress of a sink."""

    table_id: int
    key: str
    value: str

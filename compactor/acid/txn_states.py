"""The states of a transaction, as Hive stores them in TXN_STATE (its ``TxnStatus``)."""

from __future__ import annotations

OPEN, ABORTED, COMMITTED = "o", "a", "c"

#: How people read each state.
NAMES = {OPEN: "open", ABORTED: "aborted", COMMITTED: "committed"}

"""The two numbers that Hive never mixes: a transaction's and a table's write ID."""

from __future__ import annotations

from typing import NewType

TxnId = NewType("TxnId", int)  #: one for the whole metastore, drawn by TXNS
WriteId = NewType("WriteId", int)  #: counts the writing transactions of one table, drawn by NEXT_WRITE_ID

#: ``Long.MIN_VALUE``: the number of a base made of nothing but original files (Hive's MRCompactor).
ORIGINALS_ONLY = WriteId(-(2**63))
#: ``Long.MAX_VALUE``: how Hive writes "nothing is open" into a list's text.
NOTHING_OPEN = 2**63 - 1

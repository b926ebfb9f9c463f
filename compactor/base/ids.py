"""The two kinds of numbers that Hive never mixes: transaction ids and write IDs."""

from __future__ import annotations

from typing import NewType

TxnId = NewType("TxnId", int)  #: unique in the whole metastore, allocated by TXNS
WriteId = NewType("WriteId", int)  #: counts the writing transactions of one table, allocated by NEXT_WRITE_ID

#: ``Long.MIN_VALUE``: the number of a base made only of original files (Hive's MRCompactor).
ORIGINALS_ONLY = WriteId(-(2**63))
#: ``Long.MAX_VALUE``: written by Hive into a list's text if nothing is open.
NOTHING_OPEN = 2**63 - 1

"""Reporting views for people with an SQL shell: states as words, times as UTC text.

They are written once, with the names of Hive's tables and a placeholder for times; ``statements`` adapts them to a
database.
"""

from __future__ import annotations

import re

from compactor.acid import txn_states
from compactor.compaction.states import CompactionType, State
from compactor.metastore.schema.tables import TRANSACTION_TABLES


def _words(column: str, words: dict[str, str]) -> str:
    cases = " ".join(f"WHEN '{code}' THEN '{word}'" for code, word in words.items())
    return f"CASE {column} {cases} ELSE {column} END"


def _time(column: str) -> str:
    return f"{_TIME}({column})"


_TIME = "UTC_TEXT"  #: placeholder for the expression that formats epoch milliseconds, one for each database


_STATES = {state.value: state.label for state in State}
_TYPES = {kind.value: kind.label for kind in CompactionType}
_LOCK_STATES = {"a": "acquired", "w": "waiting"}
_LOCK_TYPES = {"r": "shared_read", "w": "shared_write", "x": "excl_write", "e": "exclusive"}


def _compactions(prefix: str, table: str, end: str) -> str:
    p = prefix
    return f"""SELECT {p}_ID AS id, {p}_DATABASE AS db_name, {p}_TABLE AS table_name, {p}_PARTITION AS partition_name,
  {_words(f"{p}_TYPE", _TYPES)} AS type,
  {_words(f"{p}_STATE", _STATES)} AS state,
  {p}_WORKER_ID AS worker_id, {p}_POOL_NAME AS pool_name,
  {_time(f"{p}_ENQUEUE_TIME")} AS enqueued_at,
  {_time(f"{p}_START")} AS started_at,
  {end} AS ended_at,
  {p}_HIGHEST_WRITE_ID AS highest_write_id, {p}_TXN_ID AS txn_id, {p}_NEXT_TXN_ID AS next_txn_id,
  {p}_ERROR_MESSAGE AS error_message
FROM {table}"""


#: One statement each, in the order in which the views are created.
_VIEWS = (
    "CREATE VIEW COMPACTOR_V_COMPACTIONS AS\n"
    + _compactions("CQ", "COMPACTION_QUEUE", "NULL")
    + "\nUNION ALL\n"
    + _compactions("CC", "COMPLETED_COMPACTIONS", _time("CC_END")),
    f"""CREATE VIEW COMPACTOR_V_TRANSACTIONS AS
SELECT TXN_ID AS txn_id, {_words("TXN_STATE", txn_states.NAMES)} AS state, TXN_TYPE AS type,
  {_time("TXN_STARTED")} AS started_at,
  {_time("TXN_LAST_HEARTBEAT")} AS last_heartbeat_at,
  TXN_USER AS user_name, TXN_HOST AS host_name, TXN_AGENT_INFO AS agent_info, TXN_META_INFO AS reason
FROM TXNS WHERE TXN_ID > 0""",
    f"""CREATE VIEW COMPACTOR_V_LOCKS AS
SELECT HL_LOCK_EXT_ID AS lock_ext_id, HL_LOCK_INT_ID AS lock_int_id, HL_TXNID AS txn_id, HL_DB AS db_name,
  HL_TABLE AS table_name, HL_PARTITION AS partition_name,
  {_words("HL_LOCK_STATE", _LOCK_STATES)} AS lock_state,
  {_words("HL_LOCK_TYPE", _LOCK_TYPES)} AS lock_type,
  {_time("HL_ACQUIRED_AT")} AS acquired_at, HL_USER AS user_name, HL_HOST AS host_name,
  HL_BLOCKEDBY_EXT_ID AS blocked_by_ext_id, HL_BLOCKEDBY_INT_ID AS blocked_by_int_id
FROM HIVE_LOCKS""",
    f"""CREATE VIEW COMPACTOR_V_ABORTED AS
SELECT TC_DATABASE AS db_name, TC_TABLE AS table_name, TC_PARTITION AS partition_name,
  COUNT(DISTINCT TC_TXNID) AS aborted_transactions,
  {_time("MIN(TXN_STARTED)")} AS oldest_started_at
FROM TXN_COMPONENTS JOIN TXNS ON TXN_ID = TC_TXNID
WHERE TXN_STATE = 'a' GROUP BY TC_DATABASE, TC_TABLE, TC_PARTITION""",
)

#: Epoch milliseconds ``{0}`` as text.
_TIMES = {
    "sqlite": "CASE WHEN {0} > 0 THEN strftime('%Y-%m-%dT%H:%M:%fZ', {0} / 1000.0, 'unixepoch') END",
    "postgresql": (
        "CASE WHEN {0} > 0 THEN "
        "to_char(to_timestamp({0} / 1000.0) AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"') END"
    ),
    "mysql": (
        "CASE WHEN {0} > 0 THEN CONCAT(SUBSTRING("
        "DATE_FORMAT(TIMESTAMPADD(MICROSECOND, {0} * 1000, '1970-01-01'), '%Y-%m-%dT%H:%i:%s.%f'), 1, 23), 'Z') END"
    ),
}
#: Hive's names, which need quotes in PostgreSQL.
_NAMES = sorted({name for table in TRANSACTION_TABLES for name in (table.name, *(c.name for c in table.columns))})
_QUOTED = re.compile(rf"\b({'|'.join(_NAMES)})\b")
_CALL = re.compile(rf"{_TIME}\(((?:MIN\()?\w+\)?)\)")


def statements(kind: str, *, lacking: frozenset[str] = frozenset(), quoted: bool = True) -> tuple[str, ...]:
    """Returns the statements for ``sqlite``, ``postgresql`` or ``mysql``.

    ``lacking`` are columns that the schema lacks; they read as NULL. Without ``quoted`` PostgreSQL's names are written as
    in Hive 3.1's schema, whose transaction tables are in lower case.
    """
    absent = "|".join(sorted(lacking)) or "(?!)"
    absent = rf"{_TIME}\((?:{absent})\)|\b(?:{absent})\b"
    views = tuple(re.sub(absent, "NULL", view) for view in _VIEWS)
    timed = (_CALL.sub(lambda call: _TIMES[kind].format(call[1]), view) for view in views)
    if kind != "postgresql" or not quoted:
        return tuple(timed)
    return tuple(_QUOTED.sub(r'"\1"', view) for view in timed)

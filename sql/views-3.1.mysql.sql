-- Reporting views over Hive 3.1's metastore schema. Rendered by `python -m compactor.metastore.schema.create`.

CREATE VIEW COMPACTOR_V_COMPACTIONS AS
SELECT CQ_ID AS id, CQ_DATABASE AS db_name, CQ_TABLE AS table_name, CQ_PARTITION AS partition_name,
  CASE CQ_TYPE WHEN 'a' THEN 'MAJOR' WHEN 'i' THEN 'MINOR' WHEN 'r' THEN 'REBALANCE' WHEN 'c' THEN 'ABORT_CLEANUP' WHEN 's' THEN 'SMART_OPTIMIZE' ELSE CQ_TYPE END AS type,
  CASE CQ_STATE WHEN 'i' THEN 'initiated' WHEN 'w' THEN 'working' WHEN 'r' THEN 'ready for cleaning' WHEN 's' THEN 'succeeded' WHEN 'f' THEN 'failed' WHEN 'a' THEN 'did not initiate' WHEN 'c' THEN 'refused' WHEN 'x' THEN 'aborted' ELSE CQ_STATE END AS state,
  CQ_WORKER_ID AS worker_id, NULL AS pool_name,
  NULL AS enqueued_at,
  CASE WHEN CQ_START > 0 THEN CONCAT(SUBSTRING(DATE_FORMAT(TIMESTAMPADD(MICROSECOND, CQ_START * 1000, '1970-01-01'), '%Y-%m-%dT%H:%i:%s.%f'), 1, 23), 'Z') END AS started_at,
  NULL AS ended_at,
  CQ_HIGHEST_WRITE_ID AS highest_write_id, NULL AS txn_id, NULL AS next_txn_id,
  NULL AS error_message
FROM COMPACTION_QUEUE
UNION ALL
SELECT CC_ID AS id, CC_DATABASE AS db_name, CC_TABLE AS table_name, CC_PARTITION AS partition_name,
  CASE CC_TYPE WHEN 'a' THEN 'MAJOR' WHEN 'i' THEN 'MINOR' WHEN 'r' THEN 'REBALANCE' WHEN 'c' THEN 'ABORT_CLEANUP' WHEN 's' THEN 'SMART_OPTIMIZE' ELSE CC_TYPE END AS type,
  CASE CC_STATE WHEN 'i' THEN 'initiated' WHEN 'w' THEN 'working' WHEN 'r' THEN 'ready for cleaning' WHEN 's' THEN 'succeeded' WHEN 'f' THEN 'failed' WHEN 'a' THEN 'did not initiate' WHEN 'c' THEN 'refused' WHEN 'x' THEN 'aborted' ELSE CC_STATE END AS state,
  CC_WORKER_ID AS worker_id, NULL AS pool_name,
  NULL AS enqueued_at,
  CASE WHEN CC_START > 0 THEN CONCAT(SUBSTRING(DATE_FORMAT(TIMESTAMPADD(MICROSECOND, CC_START * 1000, '1970-01-01'), '%Y-%m-%dT%H:%i:%s.%f'), 1, 23), 'Z') END AS started_at,
  CASE WHEN CC_END > 0 THEN CONCAT(SUBSTRING(DATE_FORMAT(TIMESTAMPADD(MICROSECOND, CC_END * 1000, '1970-01-01'), '%Y-%m-%dT%H:%i:%s.%f'), 1, 23), 'Z') END AS ended_at,
  CC_HIGHEST_WRITE_ID AS highest_write_id, NULL AS txn_id, NULL AS next_txn_id,
  NULL AS error_message
FROM COMPLETED_COMPACTIONS;

CREATE VIEW COMPACTOR_V_TRANSACTIONS AS
SELECT TXN_ID AS txn_id, CASE TXN_STATE WHEN 'o' THEN 'open' WHEN 'a' THEN 'aborted' WHEN 'c' THEN 'committed' ELSE TXN_STATE END AS state, TXN_TYPE AS type,
  CASE WHEN TXN_STARTED > 0 THEN CONCAT(SUBSTRING(DATE_FORMAT(TIMESTAMPADD(MICROSECOND, TXN_STARTED * 1000, '1970-01-01'), '%Y-%m-%dT%H:%i:%s.%f'), 1, 23), 'Z') END AS started_at,
  CASE WHEN TXN_LAST_HEARTBEAT > 0 THEN CONCAT(SUBSTRING(DATE_FORMAT(TIMESTAMPADD(MICROSECOND, TXN_LAST_HEARTBEAT * 1000, '1970-01-01'), '%Y-%m-%dT%H:%i:%s.%f'), 1, 23), 'Z') END AS last_heartbeat_at,
  TXN_USER AS user_name, TXN_HOST AS host_name, TXN_AGENT_INFO AS agent_info, TXN_META_INFO AS reason
FROM TXNS WHERE TXN_ID > 0;

CREATE VIEW COMPACTOR_V_LOCKS AS
SELECT HL_LOCK_EXT_ID AS lock_ext_id, HL_LOCK_INT_ID AS lock_int_id, HL_TXNID AS txn_id, HL_DB AS db_name,
  HL_TABLE AS table_name, HL_PARTITION AS partition_name,
  CASE HL_LOCK_STATE WHEN 'a' THEN 'acquired' WHEN 'w' THEN 'waiting' ELSE HL_LOCK_STATE END AS lock_state,
  CASE HL_LOCK_TYPE WHEN 'r' THEN 'shared_read' WHEN 'w' THEN 'shared_write' WHEN 'x' THEN 'excl_write' WHEN 'e' THEN 'exclusive' ELSE HL_LOCK_TYPE END AS lock_type,
  CASE WHEN HL_ACQUIRED_AT > 0 THEN CONCAT(SUBSTRING(DATE_FORMAT(TIMESTAMPADD(MICROSECOND, HL_ACQUIRED_AT * 1000, '1970-01-01'), '%Y-%m-%dT%H:%i:%s.%f'), 1, 23), 'Z') END AS acquired_at, HL_USER AS user_name, HL_HOST AS host_name,
  HL_BLOCKEDBY_EXT_ID AS blocked_by_ext_id, HL_BLOCKEDBY_INT_ID AS blocked_by_int_id
FROM HIVE_LOCKS;

CREATE VIEW COMPACTOR_V_ABORTED AS
SELECT TC_DATABASE AS db_name, TC_TABLE AS table_name, TC_PARTITION AS partition_name,
  COUNT(DISTINCT TC_TXNID) AS aborted_transactions,
  CASE WHEN MIN(TXN_STARTED) > 0 THEN CONCAT(SUBSTRING(DATE_FORMAT(TIMESTAMPADD(MICROSECOND, MIN(TXN_STARTED) * 1000, '1970-01-01'), '%Y-%m-%dT%H:%i:%s.%f'), 1, 23), 'Z') END AS oldest_started_at
FROM TXN_COMPONENTS JOIN TXNS ON TXN_ID = TC_TXNID
WHERE TXN_STATE = 'a' GROUP BY TC_DATABASE, TC_TABLE, TC_PARTITION;

"""Hive's notification log, by which Impala's catalog and Hive's replication learn of changes."""

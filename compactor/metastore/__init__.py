"""The Hive metastore's database: catalog, transactions, write IDs, locks, the compaction queue."""

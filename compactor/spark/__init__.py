"""Binds units to Spark executors. Knows rewriting, neither SQL nor queues."""

"""The policy of compaction, pure: states, decisions, cleaning, retention of history, routing and batches."""

"""The policy of compaction, pure: states, decisions, what may be cleaned, what history keeps, routing and batches."""

"""The policy of compaction: states, decisions, cleaning, retention, routing and batches. Pure."""

"""The demo: real data, a real scheduler, and figures before and after compaction."""

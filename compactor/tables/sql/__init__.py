"""SQL without an engine: runs the statements of a text one after another; see docs/sql.md."""

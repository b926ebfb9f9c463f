"""SQL: the statements of a text, done one after another without an engine; see docs/sql.md."""

"""The file-system protocol that tables are accessed by, and its back ends. Knows directories and bytes, neither ORC nor
SQL."""

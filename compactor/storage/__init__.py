"""The file-system protocol for tables and its back ends.

Knows directories and bytes, but neither ORC nor SQL.
"""

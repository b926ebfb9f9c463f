"""Hive's ACID layout as pure functions: names, write-id lists, the bucket property, a directory's state."""

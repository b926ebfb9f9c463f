"""Hive's ACID layout as pure functions.

Names, write-id lists, the bucket property and the state of a directory.
"""

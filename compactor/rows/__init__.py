"""ACID rows in files: the keys in a table's file, the delete events that apply to it, and a snapshot's reader."""

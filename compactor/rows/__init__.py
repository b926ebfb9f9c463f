"""ACID rows in files: their keys, the delete events that apply to them, and a reader of snapshots."""

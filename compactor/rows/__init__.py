"""ACID rows in files: what a file of a table holds, which deletes hit it, a snapshot's reader and a small writer."""

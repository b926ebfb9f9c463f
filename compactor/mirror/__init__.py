"""Mirrors of tables in Iceberg catalogs: the passes that keep them current, and their files."""

"""Preparing the tables of a Hive 2 metastore for an upgrade to Hive 3 or later."""

from __future__ import annotations

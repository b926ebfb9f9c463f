"""Checks of an installation and its metastore, and the alarms; nothing is repaired."""

from __future__ import annotations

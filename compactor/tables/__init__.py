"""Writes rows into tables as a transaction of Hive would. Used by the demo and the tests so far."""

from __future__ import annotations

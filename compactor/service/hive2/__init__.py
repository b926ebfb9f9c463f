"""The last major compactions of Hive 2, before a later Hive takes over."""

from __future__ import annotations

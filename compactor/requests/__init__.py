"""Requests of people: compact, abort, pause and resume a table, override its settings."""

from __future__ import annotations

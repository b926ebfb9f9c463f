"""Requests of people: compact, abort, pause, override."""

from __future__ import annotations

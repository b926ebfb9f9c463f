"""Filters on rows: their text, their meaning, and what statistics say about them before a row is read."""

from __future__ import annotations

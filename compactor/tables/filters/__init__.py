"""Conditions on rows: their text, their meaning, and what statistics say of them before a row is read."""

from __future__ import annotations

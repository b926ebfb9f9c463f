"""Transactions of programs: snapshot, locks, statements, and what is staged until the commit."""

from __future__ import annotations

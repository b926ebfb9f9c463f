"""Transactions of programs: snapshot, locks, statements, and the files that wait for the commit."""

from __future__ import annotations

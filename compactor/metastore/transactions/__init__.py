"""Transactions, write IDs and what they wrote."""

from __future__ import annotations

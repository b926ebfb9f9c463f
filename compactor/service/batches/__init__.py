"""Batches of queue entries, each driven by one application."""

from __future__ import annotations

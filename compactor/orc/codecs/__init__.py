"""Rows of stripes decoded to batches and encoded again."""

from __future__ import annotations

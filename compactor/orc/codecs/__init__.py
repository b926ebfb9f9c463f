"""Rows of stripes, decoded into batches and encoded again."""

from __future__ import annotations

"""Decodes rows of stripes into batches, and encodes batches."""

from __future__ import annotations

"""The ORC format, as bytes and as values: tails, footers, statistics, types, compression."""

from __future__ import annotations

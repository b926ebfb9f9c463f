"""Batches of queue entries: how they are assembled, driven by one Spark application each, watched and given back."""

from __future__ import annotations

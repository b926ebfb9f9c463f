"""Batches of queue entries: how they are assembled, driven by one application, watched, given back."""

from __future__ import annotations

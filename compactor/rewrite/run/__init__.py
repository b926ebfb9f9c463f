"""Runs units: in this process, in others, and what comes back from them."""

from __future__ import annotations

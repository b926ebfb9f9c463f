"""Rewrites a unit of a full ACID table: one file number's rows, delete events and stripes.

Above ``plan``, below ``run``.
"""

from __future__ import annotations

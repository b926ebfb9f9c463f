"""Rewrites a unit of an insert-only table, in which no row is ever deleted.

Above ``full_acid``, below ``run``.
"""

from __future__ import annotations

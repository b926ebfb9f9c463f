"""Runs units in this process or in others, and collects their results.

Above ``insert_only`` and ``full_acid``.
"""

from __future__ import annotations

"""Errors, ids, identities, steps, times, texts and secrets, for every layer.

It imports nothing of ours but itself.
"""

from __future__ import annotations

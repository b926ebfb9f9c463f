"""The cleaner: removes directories that no snapshot needs, and forgets their transactions."""

from __future__ import annotations

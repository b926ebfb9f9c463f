"""Files that ORC data is read from and written to."""

from __future__ import annotations

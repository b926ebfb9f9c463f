"""One unit of an insert-only table: files whose rows nobody deletes."""

from __future__ import annotations

"""One file number of a full ACID table: rows, delete events and stripes."""

from __future__ import annotations

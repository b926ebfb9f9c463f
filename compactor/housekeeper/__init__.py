"""The housekeeper: time-outs, and the purge of rows that nothing needs any longer."""

from __future__ import annotations

"""A directory's state becomes units of work. Pure."""

from __future__ import annotations

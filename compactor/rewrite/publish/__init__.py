"""Stages, names, hides and removes output directories. On the floor of ``run``; above ``plan``."""

from __future__ import annotations

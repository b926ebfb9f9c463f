"""The driver of an application, alone in its folder: spark-submit puts that folder on Python's path."""

from __future__ import annotations

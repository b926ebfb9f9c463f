"""Checks of a deployment, and alarms."""

from __future__ import annotations

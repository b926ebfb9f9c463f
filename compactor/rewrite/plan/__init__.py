"""Turns the state of a directory into units of work. Pure."""

from __future__ import annotations

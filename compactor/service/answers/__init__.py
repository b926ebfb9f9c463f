"""Answers to questions; nothing is written."""

from __future__ import annotations

"""Answers to questions (show, explain, plan, the page); nothing is written."""

from __future__ import annotations

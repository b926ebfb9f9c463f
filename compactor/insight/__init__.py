"""Estimates before, and what would be under other settings: pure models over rows of our own state."""

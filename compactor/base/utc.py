"""Times as people read them."""

from __future__ import annotations

from datetime import UTC, datetime


def utc_text(milliseconds: int) -> str:
    """Formats epoch milliseconds as a UTC time to the second; a number beyond our years stays as it is."""
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return f"{milliseconds} ms"

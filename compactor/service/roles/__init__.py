"""One pass of the initiator, the cleaner or the housekeeper."""

from __future__ import annotations

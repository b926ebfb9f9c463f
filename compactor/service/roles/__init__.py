"""One pass of the initiator, the cleaner and the housekeeper."""

from __future__ import annotations

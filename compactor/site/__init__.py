"""The opened site: configuration, stores, and the checks and threads that every role uses."""

from __future__ import annotations

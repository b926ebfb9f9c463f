"""The opened site: configuration in, opened stores out, and the guards and threads that every role uses."""

from __future__ import annotations

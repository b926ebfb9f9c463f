"""An application of somebody else's that occupies its container of YARN until it is killed. It starts no Spark."""

from __future__ import annotations

import signal

signal.pause()

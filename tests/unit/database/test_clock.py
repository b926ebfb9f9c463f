from __future__ import annotations

import time
from pathlib import Path

from compactor.database.clock import now_ms
from compactor.database.engine import open_database


def test_now_is_epoch_milliseconds(tmp_path: Path) -> None:
    """PROTOCOL 9: clock by julianday, in whole milliseconds and not in seconds."""
    database = open_database(f"sqlite:///{tmp_path / 'x.db'}")
    seen = set()
    for _ in range(5):
        before = time.time() * 1000
        with database.write() as conn:
            now = now_ms(conn)
        assert isinstance(now, int)
        assert before - 2 <= now <= time.time() * 1000 + 2
        seen.add(now % 1000)
        time.sleep(0.003)
    assert len(seen) > 1

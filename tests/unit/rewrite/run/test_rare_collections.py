from __future__ import annotations

import gc
from contextlib import suppress

from compactor.rewrite.run.rare_collections import collecting_rarely


def test_cycles_are_looked_for_rarely_until_the_block_ends() -> None:
    before = gc.get_threshold()
    with suppress(ValueError), collecting_rarely():
        assert gc.get_threshold()[0] > 10 * before[0]
        raise ValueError
    assert gc.get_threshold() == before

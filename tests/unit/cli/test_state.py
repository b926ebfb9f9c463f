from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from click.testing import Result

from compactor.metastore.metastore import Metastore
from compactor.state import state_database

Compactor = Callable[..., Result]


def test_mode_observe_has_separate_state_or_none(compactor: Compactor, metastore: Metastore, tmp_path: Path) -> None:
    refused = compactor("--set", "compactor.mode=observe", "state", "init")
    assert (refused.exit_code, "set state_url" in refused.stderr) == (2, True)
    done = compactor("state", "upgrade", "--json")
    assert json.loads(done.stdout)["version"] == state_database.newest_version()

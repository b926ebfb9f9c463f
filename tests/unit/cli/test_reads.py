from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from click.testing import Result

from compactor.site.site import Site
from tests.support.read_events import plain
from tests.support.tables import make_table

Compactor = Callable[..., Result]


def test_reads_are_taken_in_and_shown(compactor: Compactor, deployment: Site, warehouse: Path, tmp_path: Path) -> None:
    make_table(deployment, warehouse)
    assert "nobody has told of any read" in compactor("reads", "show").stdout
    now = deployment.metastore.now_ms() / 1000
    file = tmp_path / "events.json"
    file.write_text("\n".join(json.dumps(plain(n, at=now - n, seconds=2)) for n in range(3)))
    assert (
        "3 events, 3 queries that read tables; 3 reads of tables here stored"
        in compactor("reads", "import", str(file)).stdout
    )
    again = json.loads(compactor("--json", "reads", "import", str(file)).stdout)
    assert again == {"events": 3, "queries": 3, "stored": 0}
    assert "default.t" in compactor("reads", "show").stdout
    (shown,) = json.loads(compactor("--json", "reads", "show", "default.t").stdout)["tables"]
    assert (shown["queries"], shown["seconds"], shown["before"]) == (3, 6.0, None)
    assert "reads of default.t: 3 queries, 6 s" in compactor("overview").stdout
    (of_overview,) = json.loads(compactor("--json", "overview").stdout)["reads"]
    assert of_overview == shown


def test_a_bad_line_is_named(compactor: Compactor, deployment: Site, tmp_path: Path) -> None:
    file = tmp_path / "events.json"
    file.write_text("nonsense")
    found = compactor("reads", "import", str(file))
    assert found.exit_code == 1
    assert f"{file}, line 1: not JSON" in found.output

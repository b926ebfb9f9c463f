from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from click.testing import Result

from compactor.answers.explain import explain
from compactor.cli.explain import lines
from compactor.compaction.quarantine_rules import Quarantined
from compactor.requests.request import request_compaction
from compactor.site.restored_database import must_be_newest
from compactor.site.site import Site, own_state
from tests.support.backups import Backup
from tests.support.tables import entity_of, insert, make_table

Compactor = Callable[..., Result]


def test_the_explanation_as_text(compactor: Compactor, deployment: Site, warehouse: Path) -> None:
    table = make_table(deployment, warehouse, **{"compactor.spark.jars": "/x.jar", "no_auto_compaction": "true"})
    insert(deployment, table, range(2))
    request_compaction(deployment, table="default.t", partition=None, type="major", pool=None, properties={})
    output = list(lines(explain(deployment, "default.t")))
    assert output[0] == f"default.t: full ACID, {warehouse / 't'}"
    assert output[1].startswith("  mode clean (from ")
    assert any(line.startswith("  ignored: table: compactor.spark.jars: ") for line in output)
    assert any(line.startswith("the table: 1 directory (1 delta), ") for line in output)
    assert any(line.startswith("  now: ") and ", because " in line for line in output)
    assert any(line.startswith("  compaction 1 major: initiated") for line in output)
    shown = compactor("explain", "default.t")
    assert [line for line in shown.stdout.splitlines() if "compaction" in line] == [
        x for x in output if "compaction" in x
    ]
    assert json.loads(compactor("explain", "default.t", "--json").stdout)["table"] == "default.t"


def test_what_is_kept_of_a_partition(deployment: Site, warehouse: Path) -> None:
    """PROTOCOL 11.15."""
    table = make_table(deployment, warehouse)
    one = Quarantined(
        entry_id=7, entity=entity_of(table), location="/w", since=0, until=86_400_000, bytes=1500, names=("delta_1_1",)
    )
    own_state(deployment).quarantines.keep(deployment.name, one)
    wanted = "  quarantine of compaction 7: 1 directory, 1.5 kB, until 1970-01-02T00:00:00Z"
    assert wanted in list(lines(explain(deployment, "default.t")))


def test_a_missing_table_ends_with_2(compactor: Compactor, deployment: Site) -> None:
    done = compactor("explain", "default.nope")
    assert (done.exit_code, "nope" in done.stderr) == (2, True)


def test_a_restored_metastore_is_the_first_thing_said(deployment: Site, warehouse: Path, tmp_path: Path) -> None:
    """PROTOCOL 11.2."""
    table = make_table(deployment, warehouse)
    backup = Backup(tmp_path / "metastore.db")
    backup.take()
    insert(deployment, table, range(2))
    must_be_newest(deployment)
    backup.restore()
    assert list(lines(explain(deployment, "default.t")))[1].startswith(
        "  nothing is done now: metastore default (sqlite"
    )

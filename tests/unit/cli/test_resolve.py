from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from compactor.metastore.catalog.values import Table
from compactor.site.site import Site
from tests.support.backups import Backup
from tests.support.tables import insert, make_table, rows_of

Compactor = Callable[..., Result]
NAME = "delta_0000002_0000002_0000"


@pytest.fixture
def restored(deployment: Site, warehouse: Path, tmp_path: Path) -> Table:
    """A table with a delta that the restored metastore does not know."""
    table, backup = make_table(deployment, warehouse), Backup(tmp_path / "metastore.db")
    insert(deployment, table, [1])
    backup.take()
    insert(deployment, table, [2])
    backup.restore()
    return table


def levels(compactor: Compactor) -> list[str]:
    """Returns the levels of the doctor's findings about files and metastore."""
    findings = json.loads(compactor("doctor", "--json").stdout)["findings"]
    return [finding["level"] for finding in findings if finding["subject"] == "agreement"]


def test_nothing_changes_without_yes(compactor: Compactor, deployment: Site, restored: Table) -> None:
    shown = compactor("resolve", "default.t")
    assert (shown.exit_code, NAME in shown.stdout, "0 of 1 have a ruling; nothing was changed" in shown.stdout) == (
        0,
        True,
        True,
    )
    (row,) = json.loads(compactor("resolve", "default.t", "--keep-all", "--json").stdout)
    assert (row["path"], row["ruling"], row["unreadable"]) == (NAME, "keep", None)
    assert len(rows_of(deployment, restored)) == 1


def test_a_directory_is_kept(compactor: Compactor, deployment: Site, restored: Table) -> None:
    done = compactor("resolve", "default.t", "--keep", NAME, "--yes")
    assert done.stdout == (
        f"default.t {NAME}: keep, now {NAME}\ndefault.t: 1 directories resolved, the next write ID is 4\n"
    )
    assert len(rows_of(deployment, restored)) == 2
    assert compactor("resolve", "default.t").stdout == "nothing is in doubt\n"


@pytest.mark.usefixtures("restored")
@pytest.mark.parametrize(
    ("options", "because"),
    [
        (["--yes"], "in doubt and without a ruling"),
        (["--keep", "delta_9", "--yes"], "delta_9: is not in doubt here"),
        (["--keep", NAME, "--quarantine", NAME, "--yes"], "to be kept and quarantined"),
    ],
)
def test_a_ruling_that_cannot_be_carried_out(compactor: Compactor, options: list[str], because: str) -> None:
    done = compactor("resolve", "default.t", *options)
    assert (done.exit_code, because in done.stderr) == (1, True)


def test_rulings_about_everything_come_from_a_file(
    compactor: Compactor, deployment: Site, restored: Table, tmp_path: Path
) -> None:
    gap = json.loads(compactor("metastore", "advance", "--json").stdout)
    assert [row["path"] for row in gap["directories"]] == [NAME]
    file = tmp_path / "rulings.json"
    file.write_text(json.dumps(gap))
    refused = compactor("metastore", "advance", "--rulings", str(file), "--yes")
    assert (refused.exit_code, "expected the JSON of `compactor metastore advance --json`" in refused.stderr) == (
        2,
        True,
    )
    gap["directories"][0]["ruling"] = "keep"
    file.write_text(json.dumps(gap))
    done = compactor("metastore", "advance", "--rulings", str(file), "--yes")
    assert done.exit_code == 0, done.stderr
    assert len(rows_of(deployment, restored)) == 2


def test_the_initiator_says_so_by_its_exit_code(compactor: Compactor, deployment: Site, restored: Table) -> None:
    """PROTOCOL 11.1: a refusal shows in exit code, explain, doctor and alarms, until a person has decided."""
    looked = compactor("run", "initiator", "--once")
    assert (looked.exit_code, f"{NAME}: write ID 2 was never allocated" in looked.stdout) == (1, True)
    explained = compactor("explain", "default.t").stdout
    assert f"now: disagreement, because {restored.location}/{NAME}: write ID 2 was never allocated" in explained
    assert levels(compactor) == ["fail"]
    compactor("resolve", "default.t", "--keep-all", "--yes")
    assert compactor("run", "initiator", "--once").exit_code == 0
    assert levels(compactor) == ["ok"]

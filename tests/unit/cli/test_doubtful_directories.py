from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from compactor.acid.names import DirectoryClaim
from compactor.answers.preview import preview
from compactor.base.errors import Disagreement
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
        f"default.t {NAME}: keep, now {NAME}\ndefault.t: 1 directory resolved, the next write ID is 4\n"
    )
    assert len(rows_of(deployment, restored)) == 2
    assert compactor("resolve", "default.t").stdout == "nothing is in doubt\n"


@pytest.mark.usefixtures("restored")
@pytest.mark.parametrize(
    ("options", "because"),
    [
        (["--yes"], "in doubt and without a ruling"),
        (["--keep", "delta_9", "--yes"], "delta_9: is not in doubt here"),
        (["--keep", NAME, "--quarantine", NAME, "--yes"], "both kept and quarantined"),
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


CLAIM = DirectoryClaim(token="f" * 32, table_id=7).name


@pytest.fixture
def claimed(deployment: Site, warehouse: Path) -> Table:
    """A table whose directory a table of another metastore claims; ``default.free`` is nobody else's."""
    make_table(deployment, warehouse, "free")
    table = make_table(deployment, warehouse)
    (Path(table.location) / CLAIM).write_text('{"metastore": "far", "table": "sales.orders"}')
    return table


@pytest.mark.parametrize("table", ["default.t", None])
def test_claims_are_shown(compactor: Compactor, claimed: Table, table: str | None) -> None:
    shown = compactor("claims", *([table] if table else []))
    assert shown.exit_code == 0
    for text in (CLAIM, "'sales.orders' of metastore 'far'", "nothing was changed"):
        assert text in shown.stdout
    (row,) = json.loads(compactor("claims", *([table] if table else []), "--json").stdout)["claims"]
    assert (row["table"], row["claim"], row["directory"]) == ("default.t", CLAIM, claimed.location)
    assert (Path(claimed.location) / CLAIM).exists()


@pytest.mark.usefixtures("claimed")
def test_where_nobody_else_claims_anything(compactor: Compactor) -> None:
    assert compactor("claims", "default.free").stdout == "no other table claims a directory there\n"


@pytest.mark.parametrize("options", [("--give-up", CLAIM), ("--give-up-all",)])
def test_a_claim_is_given_up(compactor: Compactor, claimed: Table, options: tuple[str, ...]) -> None:
    compactor("claims", "default.t", *options)
    assert (Path(claimed.location) / CLAIM).exists()
    done = compactor("claims", "default.t", *options, "--yes")
    assert (done.exit_code, f"{claimed.location}/{CLAIM}: given up" in done.stdout) == (0, True)
    assert not (Path(claimed.location) / CLAIM).exists()


def test_a_claim_around_a_table_is_shown_and_given_up(compactor: Compactor, warehouse: Path, deployment: Site) -> None:
    """The command that the refusal names finds the claim."""
    table = make_table(deployment, warehouse)
    insert(deployment, table, range(10))
    claim = Path(table.location).parent / CLAIM
    claim.touch()
    with pytest.raises(Disagreement, match=f"--give-up {CLAIM} --yes"):
        preview(deployment, "default.t")
    assert str(claim.parent) in compactor("claims", "default.t").stdout
    assert compactor("claims", "default.t", "--give-up", CLAIM, "--yes").exit_code == 0
    assert not claim.exists()
    assert preview(deployment, "default.t")


def test_a_claim_that_is_not_there_is_named(compactor: Compactor, claimed: Table) -> None:
    other = DirectoryClaim(token="e" * 32, table_id=7).name
    refused = compactor("claims", "default.t", "--give-up", other, "--yes")
    assert refused.exit_code != 0
    assert (Path(claimed.location) / CLAIM).exists()


def test_in_mode_observe_nothing_is_given_up(compactor: Compactor, claimed: Table) -> None:
    refused = compactor("--set", "compactor.mode=observe", "claims", "default.t", "--give-up-all", "--yes")
    assert refused.exit_code != 0
    assert (Path(claimed.location) / CLAIM).exists()

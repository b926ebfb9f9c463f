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
from tests.support.tables import insert, make_table

Compactor = Callable[..., Result]
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

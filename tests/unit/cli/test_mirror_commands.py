"""The commands about mirrors, with a catalog of compactor.toml."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from compactor.site.site import Site
from tests.support.tables import insert, make_table

Compactor = Callable[..., Result]


@pytest.fixture
def with_lake(
    compactor: Compactor, deployment: Site, warehouse: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Site:
    """A table with three rows, and ``[catalog.lake]`` in a file that COMPACTOR_CONFIG names."""
    insert(deployment, make_table(deployment, warehouse), range(3))
    (tmp_path / "lake").mkdir()
    (tmp_path / "lake.toml").write_text(
        f'[catalog.lake]\ntype = "sql"\nuri = "sqlite:///{tmp_path}/lake/c.db"\nwarehouse = "file://{tmp_path}/lake"\n'
    )
    monkeypatch.setenv("COMPACTOR_CONFIG", str(tmp_path / "lake.toml"))
    return deployment


def test_a_mirror_from_its_addition_to_its_removal(compactor: Compactor, with_lake: Site, tmp_path: Path) -> None:
    added = compactor("mirror", "add", "default.t", "--catalog", "lake", "--as", "ice.orders")
    location = f"file://{tmp_path}/lake/ice/orders"
    assert added.stdout.startswith("default.t: mirrored as ice.orders in catalog lake, at file://"), added.output
    ran = compactor("mirror", "run")
    assert ": 3 rows in 2 data files, 0 rows deleted, 0 files removed, " in ran.stdout, ran.output
    assert compactor("mirror", "run", "default.t").stdout == "default.t: up to date\n"
    (row,) = json.loads(compactor("mirror", "show", "--json").stdout)
    assert (row["table"], row["mirror"], row["rows"], row["lag_commits"], row["problem"]) == (
        "default.t",
        "ice.orders",
        3,
        0,
        None,
    )
    assert row["location"] == location
    assert compactor("mirror", "verify", "default.t").stdout == "default.t: equal: 3 rows, 2 columns\n"
    assert "run `mirror run`" in compactor("mirror", "rebuild", "default.t").stdout
    (outcome,) = json.loads(compactor("--json", "mirror", "run").stdout)
    assert (outcome["rows"], outcome["data_files"], outcome["error"]) == (3, 2, None)
    removed = compactor("mirror", "remove", "default.t", "--purge")
    assert removed.stdout == "default.t: no longer mirrored; ice.orders was dropped\n"
    assert compactor("mirror", "show").stdout == "no table is mirrored; `compactor mirror add` adds one\n"
    assert compactor("mirror", "run").stdout == "no table is mirrored; `compactor mirror add` adds one\n"


def test_names_that_do_not_exist_are_refused(compactor: Compactor, with_lake: Site) -> None:
    for arguments, code, why in (
        (("add", "default.x", "--catalog", "lake"), 2, "default.x"),
        (("add", "default.t", "--catalog", "pond"), 2, "compactor.toml has no [catalog.pond]; catalogs there: lake"),
        (("run", "default.t"), 2, "default.t: has no mirror; mirrored tables: none"),
        (("verify", "default.t"), 2, "default.t: has no mirror"),
        (("rebuild", "default.t"), 2, "default.t: has no mirror"),
        (("remove", "default.t"), 2, "default.t: has no mirror"),
    ):
        done = compactor("mirror", *arguments)
        assert (done.exit_code, why in done.stderr) == (code, True), done.output


def test_a_pass_that_fails_is_an_error_and_is_shown(compactor: Compactor, with_lake: Site, tmp_path: Path) -> None:
    compactor("mirror", "add", "default.t", "--catalog", "lake")
    (tmp_path / "lake" / "c.db").unlink()
    ran = compactor("mirror", "run")
    assert (ran.exit_code, ran.stdout) == (1, "")
    assert "default.t in catalog lake: not in the catalog" in ran.stderr or "default.t: not in" in ran.stderr, (
        ran.stderr
    )
    (row,) = json.loads(compactor("mirror", "show", "--json").stdout)
    assert "not in the catalog" in row["problem"]


def test_without_pyiceberg_the_extra_is_named(compactor: Compactor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyiceberg", None)
    done = compactor("mirror", "show")
    assert done.exit_code == 1
    assert "pip install 'hive-compactor[iceberg]'" in done.stderr

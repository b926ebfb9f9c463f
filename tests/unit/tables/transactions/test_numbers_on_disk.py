"""Directories that hold write IDs which were drawn just now."""

from __future__ import annotations

from pathlib import Path

import pytest

from compactor.acid.names import DirectoryClaim
from compactor.base.errors import BadFile, Disagreement, StorageError
from compactor.base.ids import WriteId
from compactor.metastore.catalog.values import Table
from compactor.site.site import Site
from compactor.storage.local import LocalStorage
from compactor.tables.transactions.numbers_on_disk import UnusedWriteIds

TABLE = Table(id=1, database="default", name="t", location="/w/t")


@pytest.mark.parametrize(
    ("name", "is_refused"),
    [
        ("delta_0000004_0000004_0000", False),
        ("delta_0000005_0000005_0000", True),
        ("delete_delta_0000007_0000007_0000", True),
        ("base_0000008", True),
        ("delta_0000009_0000009_0000", False),
        ("base_0000009", False),
        ("base_0000009_v0000001", True),
    ],
)
def test_none_of_the_write_ids_of_a_batch_is_used_already(
    deployment: Site, tmp_path: Path, name: str, is_refused: bool
) -> None:
    (tmp_path / name).mkdir()
    unused = UnusedWriteIds(deployment)
    if is_refused:
        with pytest.raises(StorageError, match=f"write ID 5, but {name} reaches it already"):
            unused.check("default.t", TABLE, str(tmp_path), WriteId(5), WriteId(8))
    else:
        unused.check("default.t", TABLE, str(tmp_path), WriteId(5), WriteId(8))


def test_a_location_is_looked_at_once(deployment: Site, tmp_path: Path) -> None:
    unused = UnusedWriteIds(deployment)
    unused.check("default.t", TABLE, str(tmp_path), WriteId(5), WriteId(8))
    (tmp_path / "delta_0000005_0000005_0000").mkdir()  # the first of the batch has committed
    unused.check("default.t", TABLE, str(tmp_path), WriteId(6))
    with pytest.raises(StorageError):
        UnusedWriteIds(deployment).check("default.t", TABLE, str(tmp_path), WriteId(5))


def test_what_is_below_the_directories_is_not_listed(
    deployment: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stream looks at its table about once a second, however many deltas are there."""
    (tmp_path / "delta_0000004_0000004_0000").mkdir()
    monkeypatch.delattr(LocalStorage, "listing")
    UnusedWriteIds(deployment).check("default.t", TABLE, str(tmp_path), WriteId(5))


def test_a_location_that_is_not_there_is_named(deployment: Site, tmp_path: Path) -> None:
    with pytest.raises(BadFile, match="the metastore names it and it does not exist"):
        UnusedWriteIds(deployment).check("default.t", TABLE, str(tmp_path / "gone"), WriteId(5))


def test_a_location_that_another_table_claims_is_named(deployment: Site, tmp_path: Path) -> None:
    """PROTOCOL 11.13"""
    (tmp_path / DirectoryClaim(token="f" * 32, table_id=1).name).touch()
    with pytest.raises(Disagreement, match="is claimed by table with id 1 of the metastore with token ffffffff"):
        UnusedWriteIds(deployment).check("default.t", TABLE, str(tmp_path), WriteId(5))

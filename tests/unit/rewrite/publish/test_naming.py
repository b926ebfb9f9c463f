"""Naming: each directory gets its name by one rename (PROTOCOL 5)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from compactor.base.errors import StorageError
from compactor.base.ids import TxnId
from compactor.rewrite.plan.unit import Figures
from compactor.rewrite.publish import naming
from compactor.rewrite.publish.stage import Staged, StagedDirectory, StagedFile
from compactor.storage.capabilities import Capabilities
from compactor.storage.local import LocalStorage
from tests.support.watching import names_in

STORAGE = LocalStorage()
PAIR = ("delta_0000002_0000003_v0000042", "delete_delta_0000002_0000003_v0000042")


def staged(tmp_path: Path, *names: str) -> Staged:
    directories = []
    for name in names:
        path = tmp_path / ".compactor_v42" / "out" / name
        path.mkdir(parents=True)
        (path / "bucket_00000").write_bytes(b"12345")
        file = StagedFile(name="bucket_00000", length=5, crc32=0, rows=1)
        directories.append(StagedDirectory(name=name, staged=str(path), files=(file,)))
    return Staged(
        location=str(tmp_path),
        staging=str(tmp_path / ".compactor_v42"),
        directories=tuple(directories),
        figures=Figures(),
        is_pair=len(names) > 1,
    )


def test_every_directory_gets_its_name(tmp_path: Path) -> None:
    made = staged(tmp_path, *PAIR)
    assert made.is_pair
    naming.name_directories(STORAGE, made)
    assert names_in(tmp_path) == {*PAIR, ".compactor_v42"}
    assert not staged(tmp_path / "other", PAIR[0]).is_pair


def test_naming_again_after_a_lost_answer_changes_nothing(tmp_path: Path) -> None:
    """PROTOCOL 5: source gone and target as in the manifest means done."""
    made = staged(tmp_path, *PAIR)
    STORAGE.rename(made.directories[0].staged, str(tmp_path / PAIR[0]))
    naming.name_directories(STORAGE, made)
    naming.name_directories(STORAGE, made)
    assert names_in(tmp_path) == {*PAIR, ".compactor_v42"}


def test_a_target_that_is_something_else_is_refused(tmp_path: Path) -> None:
    """PROTOCOL 5."""
    made = staged(tmp_path, PAIR[0])
    STORAGE.rename(made.directories[0].staged, str(tmp_path / PAIR[0]))
    (tmp_path / PAIR[0] / "bucket_00000").write_bytes(b"1")
    with pytest.raises(
        StorageError, match=f"{PAIR[0]}: is not what was .*: bucket_00000 has 1 bytes, 5 bytes were written"
    ):
        naming.name_directories(STORAGE, made)


@pytest.mark.parametrize("together", [False, True])
def test_what_lost_a_file_since_it_was_staged_gets_no_name(tmp_path: Path, *, together: bool) -> None:
    """PROTOCOL 5: a complete directory or none."""
    made = staged(tmp_path, PAIR[0])
    (Path(made.directories[0].staged) / "bucket_00000").unlink()
    with pytest.raises(StorageError, match="bucket_00000 is not there, 5 bytes were written; it is not committed"):
        naming.name_together(STORAGE, [made]) if together else naming.name_directories(STORAGE, made)
    assert not (tmp_path / PAIR[0]).exists()


def test_a_file_that_is_removed_while_others_are_copied_is_missed(tmp_path: Path) -> None:
    """PROTOCOL 5: a store without rename copies one file after the other."""

    class Copying(LocalStorage):
        def capabilities(self, path: str) -> Capabilities:
            return replace(super().capabilities(path), renames=False)

        def rename(self, source: str, target: str, *, durable: bool = True) -> None:
            (Path(source) / "bucket_00000").unlink()
            super().rename(source, target, durable=durable)

    with pytest.raises(StorageError, match=f"{tmp_path}/{PAIR[0]}: .* bucket_00000 is not there"):
        naming.name_directories(Copying(), staged(tmp_path, PAIR[0]))


def test_a_target_that_exists_beside_its_source_is_refused(tmp_path: Path) -> None:
    """PROTOCOL 5: HDFS would move into it."""
    made = staged(tmp_path, *PAIR)
    (tmp_path / PAIR[1]).mkdir()
    with pytest.raises(StorageError, match="is there already"):
        naming.name_directories(STORAGE, made)
    assert Path(made.directories[1].staged).is_dir()


def test_names_of_a_transaction_are_found(tmp_path: Path) -> None:
    for name in (*PAIR, "base_0000001_v0000041", "base_0000003", "base_oops", ".compactor_v42"):
        (tmp_path / name).mkdir()
    assert naming.names_of(STORAGE, str(tmp_path), TxnId(42)) == tuple(sorted(PAIR))

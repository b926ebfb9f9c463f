"""Naming, hiding and sweeping: each by one rename (PROTOCOL 5, 7)."""

from __future__ import annotations

from pathlib import Path

import pytest

from compactor.errors import StorageError
from compactor.ids import TxnId
from compactor.rewrite.plan.unit import Figures
from compactor.rewrite.publish import names as publish
from compactor.rewrite.publish.stage import Staged, StagedDirectory, StagedFile
from compactor.storage.local import LocalStorage
from tests.support.watching import names_in

STORAGE = LocalStorage()
PAIR = ("delta_0000002_0000003_v0000042", "delete_delta_0000002_0000003_v0000042")


def staged(tmp_path: Path, *names: str) -> Staged:
    directories = []
    for name in names:
        path = tmp_path / "_compactor_v42" / "out" / name
        path.mkdir(parents=True)
        (path / "bucket_00000").write_bytes(b"12345")
        file = StagedFile(name="bucket_00000", length=5, crc32=0, rows=1)
        directories.append(StagedDirectory(name=name, staged=str(path), files=(file,)))
    return Staged(
        location=str(tmp_path),
        staging=str(tmp_path / "_compactor_v42"),
        directories=tuple(directories),
        figures=Figures(),
        is_pair=len(names) > 1,
    )


def test_every_directory_gets_its_name(tmp_path: Path) -> None:
    made = staged(tmp_path, *PAIR)
    assert made.is_pair
    publish.name(STORAGE, made)
    assert names_in(tmp_path) == {*PAIR, "_compactor_v42"}
    assert not staged(tmp_path / "other", PAIR[0]).is_pair


def test_naming_again_after_an_answer_was_lost_is_nothing_new(tmp_path: Path) -> None:
    """PROTOCOL 5: source gone and target as in the manifest = done."""
    made = staged(tmp_path, *PAIR)
    STORAGE.rename(made.directories[0].staged, str(tmp_path / PAIR[0]))
    publish.name(STORAGE, made)
    publish.name(STORAGE, made)
    assert names_in(tmp_path) == {*PAIR, "_compactor_v42"}


def test_a_target_that_is_something_else_is_refused(tmp_path: Path) -> None:
    """PROTOCOL 5."""
    made = staged(tmp_path, PAIR[0])
    STORAGE.rename(made.directories[0].staged, str(tmp_path / PAIR[0]))
    (tmp_path / PAIR[0] / "bucket_00000").write_bytes(b"1")
    with pytest.raises(StorageError, match=f"{PAIR[0]}: is there and not what .* held"):
        publish.name(STORAGE, made)


def test_a_target_that_exists_beside_its_source_is_refused(tmp_path: Path) -> None:
    """PROTOCOL 5: HDFS would move into it."""
    made = staged(tmp_path, *PAIR)
    (tmp_path / PAIR[1]).mkdir()
    with pytest.raises(StorageError, match="is there already"):
        publish.name(STORAGE, made)
    assert Path(made.directories[1].staged).is_dir()


def test_hidden_names_say_until_when_and_what(tmp_path: Path) -> None:
    """PROTOCOL 7.3: renamed first, so that nobody sees half of a directory."""
    (tmp_path / "base_0000003").mkdir()
    (tmp_path / "base_0000003" / "bucket_00000").write_bytes(b"1")
    (tmp_path / "000000_0").write_bytes(b"1")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "000001_0").write_bytes(b"1")
    hidden = publish.hide(STORAGE, str(tmp_path), ["base_0000003", "000000_0", "sub/000001_0", "gone"], until=TxnId(9))
    assert hidden == (
        "_compactor_obsolete_9_base_0000003",
        "_compactor_obsolete_9_000000_0",
        "_compactor_obsolete_9_sub__000001_0",
    )
    assert names_in(tmp_path) == {*hidden, "sub"}
    assert (tmp_path / hidden[0] / "bucket_00000").is_file()
    assert STORAGE.listing(str(tmp_path)).files == ()


def test_hiding_a_name_that_was_hidden_before(tmp_path: Path) -> None:
    for content in (b"old", b"new"):
        (tmp_path / "base_0000003").mkdir()
        (tmp_path / "base_0000003" / "bucket_00000").write_bytes(content)
        (hidden,) = publish.hide(STORAGE, str(tmp_path), ["base_0000003"], until=TxnId(9))
    assert (tmp_path / hidden / "bucket_00000").read_bytes() == b"new"


def test_named_by_finds_what_bears_a_transactions_number(tmp_path: Path) -> None:
    for name in (*PAIR, "base_0000001_v0000041", "base_0000003", "base_oops", "_compactor_v42"):
        (tmp_path / name).mkdir()
    assert publish.named_by(STORAGE, str(tmp_path), TxnId(42)) == tuple(sorted(PAIR))


def test_a_sweep_takes_what_is_dead_and_leaves_what_lives(tmp_path: Path) -> None:
    """PROTOCOL 3.1 and 7.2: staging of ended transactions; hidden directories below the gate, strictly."""
    names = [
        "_compactor_v1",
        "_compactor_v2",
        "_compactor_obsolete_5_base_0000001",
        "_compactor_obsolete_6_base_0000002",
        "base_0000003",
        "_tmp",
    ]
    for name in names:
        (tmp_path / name).mkdir()
    removed = publish.sweep(STORAGE, str(tmp_path), is_alive=lambda txn: txn == 2, lowest_open=TxnId(6))
    assert removed == ("_compactor_obsolete_5_base_0000001", "_compactor_v1")
    assert names_in(tmp_path) == set(names) - set(removed)


@pytest.mark.parametrize("is_gone", [True, False])
def test_what_another_cleaner_takes_away_meanwhile_is_no_failure(tmp_path: Path, is_gone: bool) -> None:
    class Beaten(LocalStorage):
        def rename(self, source: str, target: str, *, durable: bool = True) -> None:
            if is_gone and source.endswith("base_0000001"):
                super().remove(source)
            if source.endswith("base_0000001"):
                raise StorageError(f"cannot rename to {target}: No such file or directory")
            super().rename(source, target, durable=durable)

    for name in ("base_0000001", "base_0000002"):
        (tmp_path / name).mkdir()
    names = ["base_0000001", "base_0000002"]
    if is_gone:
        (hidden,) = publish.hide(Beaten(), str(tmp_path), names, until=TxnId(9))
        assert hidden.endswith("base_0000002")
        assert names_in(tmp_path) == {hidden}
    else:
        with pytest.raises(StorageError, match="cannot rename"):
            publish.hide(Beaten(), str(tmp_path), names, until=TxnId(9))

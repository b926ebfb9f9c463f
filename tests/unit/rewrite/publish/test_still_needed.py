"""The listing before directories are taken away (PROTOCOL 11.8.4)."""

from __future__ import annotations

import pytest

from compactor.acid.directory import AcidDirectory, acid_directory
from compactor.acid.listing import FileStatus, Listing
from compactor.acid.write_ids import ValidTxnList, ValidWriteIdList
from compactor.base.errors import LockNotGranted
from compactor.base.ids import TxnId, WriteId
from compactor.rewrite.publish.still_needed import must_still_be_needed

BASE, LATER, OBSOLETE = "base_0000002_v0000009", "delta_0000003_0000003_0000", "delta_0000001_0000001_0000"
BEFORE = {f"{name}/bucket_00000": 10 for name in (BASE, LATER, OBSOLETE)}


def listing(files: dict[str, int]) -> Listing:
    return Listing(
        files=tuple(FileStatus(path=path, length=length) for path, length in sorted(files.items())),
        directories=tuple(sorted({path.partition("/")[0] for path in files})),
    )


@pytest.fixture
def directory() -> AcidDirectory:
    seen = ValidWriteIdList(table="d.t", high_watermark=WriteId(3))
    found = acid_directory(listing(BEFORE), seen, ValidTxnList(high_watermark=TxnId(9)))
    assert found.obsolete == (OBSOLETE,)
    return found


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param({}, id="nothing"),
        pytest.param({f"{OBSOLETE}/bucket_00000": None}, id="what is obsolete is gone"),
        pytest.param({"delta_0000004_0000004_0000/bucket_00000": 7}, id="a later write"),
    ],
)
def test_what_others_do_beside_it_is_no_matter(directory: AcidDirectory, changed: dict[str, int | None]) -> None:
    must_still_be_needed("/t", directory, listing(BEFORE), listing(_with(changed)))


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param({f"{BASE}/bucket_00000": None}, id="no base"),
        pytest.param({f"{BASE}/bucket_00000": 9}, id="a shorter base"),
        pytest.param({f"{BASE}/bucket_00001": 10}, id="a further file"),
        pytest.param({f"{LATER}/bucket_00000": None}, id="no later delta"),
    ],
)
def test_a_copy_from_before_the_compaction_keeps_what_is_obsolete(
    directory: AcidDirectory, changed: dict[str, int | None]
) -> None:
    (path,) = changed
    with pytest.raises(
        LockNotGranted, match=f"/t: {path} is needed in place of what was to be removed.*nothing was removed"
    ):
        must_still_be_needed("/t", directory, listing(BEFORE), listing(_with(changed)))


def _with(changed: dict[str, int | None]) -> dict[str, int]:
    return {path: length for path, length in {**BEFORE, **changed}.items() if length is not None}

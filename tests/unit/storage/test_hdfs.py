from __future__ import annotations

from typing import Any

from compactor.acid.tree import Anchor
from compactor.storage.hdfs import build_tree

ANCHOR = Anchor(volume="hdfs://nn", identity="16386")


def status(name: str, kind: str = "DIRECTORY") -> dict[str, Any]:
    return {"pathSuffix": name, "type": kind}


def test_directories_files_and_links_by_their_types() -> None:
    """Everything in ``.snapshot`` is the past: it is not even listed."""
    listed = {
        "": [status("p=1"), status(".snapshot"), status("link", "SYMLINK"), status("000000_0", "FILE")],
        "p=1": [status("_tmp"), status("delta_1_1")],
        "p=1/_tmp": [status("_side", "FILE")],
        "p=1/delta_1_1": [status("bucket_00000", "FILE"), status("bucket_00001", "FILE")],
    }
    found = build_tree(ANCHOR, listed.__getitem__)
    assert found.anchor == ANCHOR
    assert found.directories == ("p=1", "p=1/_tmp", "p=1/delta_1_1")
    assert found.files == {"": 1, "p=1/delta_1_1": 2}
    assert found.links == ("link",)

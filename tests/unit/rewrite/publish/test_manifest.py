"""A manifest as it is read again (PROTOCOL 11.6)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from compactor.rewrite.publish.manifest import Manifest, read_manifest
from compactor.storage.local import LocalStorage

STORAGE = LocalStorage()
WRITTEN = {
    "entry": 12,
    "transaction": 31,
    "inputs": [{"path": "delta_0000001_0000001_0000/bucket_00000", "length": 7}],
    "directories": [{"name": "base_0000001_v0000031", "files": []}],
}


def test_it_comes_back(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text(json.dumps(WRITTEN))
    assert read_manifest(STORAGE, f"{tmp_path}/manifest.json") == Manifest(
        txn=31,  # type: ignore[arg-type]
        inputs={"delta_0000001_0000001_0000/bucket_00000": 7},
        outputs=("base_0000001_v0000031",),
    )


@pytest.mark.parametrize(
    "content",
    [
        *("", "[]", "{}", "[" * 100_000, '{"inputs": [{}], "directories": []}', '{"inputs": 1}'),
        '{"inputs": [{"path": "p", "length": Infinity}], "directories": []}',
    ],
)
def test_anything_else_proves_nothing(tmp_path: Path, content: str) -> None:
    (tmp_path / "manifest.json").write_text(content)
    assert read_manifest(STORAGE, f"{tmp_path}/manifest.json") is None
    assert read_manifest(STORAGE, f"{tmp_path}/gone.json") is None

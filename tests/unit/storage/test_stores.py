from __future__ import annotations

import os
from pathlib import Path

import pytest

from compactor.base.errors import NotSupported, StorageError
from compactor.storage import capabilities
from compactor.storage.store_options import StoreOptions
from compactor.storage.stores import Stores, open_stores

STORES = Stores()


@pytest.mark.parametrize(
    ("location", "path", "guarantees"),
    [
        ("/w/t/", "/w/t", capabilities.LOCAL),
        ("file:/w/t", "/w/t", capabilities.LOCAL),
        ("/w/k=s3:b", "/w/k=s3:b", capabilities.LOCAL),
        ("hdfs://nn:8020/w/t/", "hdfs://nn:8020/w/t", capabilities.HDFS),
        ("hdfs:/w/t", "hdfs:///w/t", capabilities.HDFS),
        ("s3://b/w/t/", "s3://b/w/t", capabilities.S3),
        ("s3a://b/t/k=a%3Ab#?", "s3a://b/t/k=a%3Ab#?", capabilities.S3),
        ("abfss://c@a.dfs.core.windows.net/t", "abfss://c@a.dfs.core.windows.net/t", capabilities.ABFS),
        ("gs://b/t", "gs://b/t", capabilities.GCS),
    ],
)
def test_the_scheme_selects_the_store(location: str, path: str, guarantees: capabilities.Capabilities) -> None:
    """No store is opened for it: the extras need not be installed."""
    assert STORES.resolve(location) == path
    assert STORES.capabilities(STORES.resolve(location)) is guarantees


def test_another_storage_is_refused_by_name() -> None:
    with pytest.raises(NotSupported, match=r"'wasb' is not supported.*hdfs, s3, s3a, abfs, abfss and gs"):
        STORES.resolve("wasb://c@a/t")


def test_nothing_is_renamed_from_one_store_to_another(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="different stores"):
        STORES.rename(str(tmp_path), "s3://b/t")


def test_the_local_store_serves_paths(tmp_path: Path) -> None:
    STORES.make_private(f"{tmp_path}/s", ("out",))
    STORES.make_inside(f"{tmp_path}/s/out/a")
    STORES.write(f"{tmp_path}/s/out/a/f", b"123")
    STORES.adopt(f"{tmp_path}/s/out", like=str(tmp_path))
    STORES.rename(f"{tmp_path}/s/out/a", f"{tmp_path}/a")
    STORES.remove(f"{tmp_path}/s")
    descriptor = STORES.descriptor(f"{tmp_path}/a/f")
    assert descriptor is not None
    os.close(descriptor)
    assert STORES.descriptor("s3://b/t/f") is None
    assert STORES.sync([str(tmp_path)]) == {}
    assert STORES.sync_names([str(tmp_path), "s3://b/t"]) == {}
    STORES.upload(f"{tmp_path}/a/f", f"{tmp_path}/g")
    STORES.rename(f"{tmp_path}/a", f"{tmp_path}/b")
    assert (STORES.exists(f"{tmp_path}/a"), STORES.children(str(tmp_path))) == (False, ("b", "g"))
    assert STORES.read(f"{tmp_path}/b/f") == STORES.read_range(f"{tmp_path}/g", 0, 9) == b"123"
    assert STORES.local_path(f"{tmp_path}/g") == f"{tmp_path}/g"
    assert [f.length for f in STORES.listing(str(tmp_path)).files] == [3, 3]
    assert STORES.length(f"{tmp_path}/g") == 3
    assert STORES.free_bytes(str(tmp_path))
    assert STORES.may_write(str(tmp_path))
    STORES.remove(f"{tmp_path}/b")
    assert not STORES.exists(f"{tmp_path}/b")


def test_a_process_opens_the_stores_once() -> None:
    options = StoreOptions.from_tables({"hdfs": {"user": "x"}})
    assert open_stores(options) is open_stores(StoreOptions.from_tables({"hdfs": {"user": "x"}}))
    assert open_stores(options).options == options

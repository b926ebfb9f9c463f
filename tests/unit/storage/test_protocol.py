from __future__ import annotations

import inspect

import pytest

from compactor.storage.abfs import AbfsStorage
from compactor.storage.gcs import GcsStorage
from compactor.storage.hdfs import HdfsStorage
from compactor.storage.local import LocalStorage
from compactor.storage.protocol import Storage
from compactor.storage.s3 import S3Storage
from compactor.storage.stores import Stores


@pytest.mark.parametrize("store", [LocalStorage, HdfsStorage, S3Storage, GcsStorage, AbfsStorage, Stores])
def test_every_store_has_every_method_with_the_same_arguments(store: type) -> None:
    for name, wanted in inspect.getmembers(Storage, inspect.isfunction):
        if name.startswith("_"):
            continue
        found = getattr(store, name)
        assert list(inspect.signature(found).parameters) == list(inspect.signature(wanted).parameters), name

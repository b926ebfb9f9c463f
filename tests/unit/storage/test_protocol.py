from __future__ import annotations

import inspect

from compactor.storage.local import LocalStorage
from compactor.storage.protocol import Storage


def test_the_local_storage_has_every_method_with_the_same_arguments() -> None:
    for name, wanted in inspect.getmembers(Storage, inspect.isfunction):
        if name.startswith("_"):
            continue
        found = getattr(LocalStorage, name)
        assert list(inspect.signature(found).parameters) == list(inspect.signature(wanted).parameters), name

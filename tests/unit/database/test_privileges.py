"""``tests/contract/test_doctor.py`` asks servers."""

from __future__ import annotations

import pytest

from compactor.metastore import privileges
from compactor.metastore.store import Metastore


def test_a_file_is_written_or_not(metastore: Metastore, monkeypatch: pytest.MonkeyPatch) -> None:
    assert privileges.missing(metastore.database, metastore.dialect) == ()
    monkeypatch.setattr("compactor.metastore.privileges.os.access", lambda path, mode: False)
    (named,) = privileges.missing(metastore.database, metastore.dialect)
    assert str(metastore.database.path) in named

"""``tests/contract/test_doctor.py`` asks servers."""

from __future__ import annotations

import pytest

from compactor.database import privileges
from compactor.metastore.metastore import Metastore


def test_a_file_is_written_or_not(metastore: Metastore, monkeypatch: pytest.MonkeyPatch) -> None:
    assert privileges.missing(metastore.database, metastore.dialect.transaction_tables) == ()
    monkeypatch.setattr("compactor.database.privileges.os.access", lambda path, mode: False)
    (named,) = privileges.missing(metastore.database, metastore.dialect.transaction_tables)
    assert str(metastore.database.path) in named

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from click.testing import Result

from compactor.metastore.catalog.embedded import NewTable
from compactor.metastore.catalog.values import Column
from compactor.metastore.metastore import Metastore

Compactor = Callable[..., Result]


@pytest.fixture(autouse=True)
def _table(metastore: Metastore) -> None:
    metastore.embedded_catalog.create_database("sales", "/w")
    acid = {"transactional": "true"}
    metastore.embedded_catalog.create_table(
        NewTable("sales", "t", "/w/t", [Column(name="a", type="int")], parameters=acid)
    )


def test_locks_as_hive_prints_them(compactor: Compactor) -> None:
    output = compactor("explain-locks", "delete from t", "--database", "SALES").stdout
    assert output == "LOCK INFORMATION:\nsales.t -> SHARED_WRITE\n"


def test_locks_of_the_manager_without_transactions(compactor: Compactor) -> None:
    output = compactor("explain-locks", "drop table sales.t", "--old").stdout
    assert output == "LOCK INFORMATION:\nsales -> S\nsales.t -> X\n"


def test_nothing_is_locked(compactor: Compactor, metastore: Metastore) -> None:
    assert json.loads(compactor("explain-locks", "drop table sales.t", "--json").stdout)
    assert metastore.locks.show() == []
    assert metastore.transactions.open_transactions() == []


@pytest.mark.parametrize(
    ("statement", "word", "code"), [("grant all to me", "GRANT", 1), ("select * from nope", "nope", 2)]
)
def test_a_statement_that_cannot_be_explained(compactor: Compactor, statement: str, word: str, code: int) -> None:
    done = compactor("explain-locks", statement)
    assert (done.exit_code, word in done.stderr) == (code, True)

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from compactor.answers.explain_locks import explain_locks
from compactor.base.errors import NotFound
from compactor.cli.program import program
from compactor.metastore.catalog.embedded import NewTable
from compactor.metastore.catalog.values import Column
from compactor.site.site import Site


@pytest.fixture
def site(deployment: Site) -> Site:
    embedded = deployment.metastore.embedded_catalog
    embedded.create_database("default", "/warehouse")
    acid = {"transactional": "true"}
    columns = [Column(name="a", type="int")]
    embedded.create_table(NewTable("default", "t", "/warehouse/t", columns, parameters=acid))
    keys = [Column(name="p", type="string")]
    table = embedded.create_table(
        NewTable("default", "part", "/warehouse/part", columns, parameters=acid, partition_keys=keys)
    )
    for value in ("q", "a b=c/d%"):
        embedded.add_partition(table, [value])
    return deployment


def test_printed_as_hive_prints_them(site: Site) -> None:
    explained = explain_locks(site, "INSERT OVERWRITE TABLE t SELECT a FROM part WHERE p = 'q'")
    assert explained.statement == "INSERT OVERWRITE … SELECT"
    assert [str(lock) for lock in explained.locks] == ["default.part.p=q -> SHARED_READ", "default.t -> EXCL_WRITE"]


def test_partitions_are_named_as_stored(site: Site) -> None:
    explained = explain_locks(site, "insert into part partition (p='a b=c/d%') select 1")
    assert [lock.partition for lock in explained.locks] == ["p=a b%3Dc%2Fd%25"]
    read = explain_locks(site, "select * from part where p = 'a b=c/d%'")
    assert [lock.partition for lock in read.locks] == ["p=a b%3Dc%2Fd%25"]


def test_an_unknown_table_is_named(site: Site) -> None:
    with pytest.raises(NotFound, match="nowhere"):
        explain_locks(site, "select * from nowhere")
    with pytest.raises(NotFound, match=r"d\.t"):
        explain_locks(site, "select * from t", database="d")


def test_the_command(site: Site, metastore_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COMPACTOR_METASTORE_URL", metastore_url)
    monkeypatch.setenv("COMPACTOR_WAREHOUSE", "/warehouse")
    run = CliRunner()
    plain = run.invoke(program, ["explain-locks", "delete from t where a = 1"])
    assert (plain.exit_code, plain.stdout) == (0, "LOCK INFORMATION:\ndefault.t -> SHARED_WRITE\n")
    strict = run.invoke(program, ["--set", "hive.txn.xlock.write=true", "explain-locks", "delete from t where a = 1"])
    assert strict.stdout.splitlines()[1:] == ["default.t -> EXCL_WRITE"]
    old = run.invoke(program, ["explain-locks", "--old", "--json", "drop table t"])
    assert [(lock["table"], lock["lock_type"]) for lock in json.loads(old.stdout)["locks"]] == [(None, "S"), ("t", "X")]
    unknown = run.invoke(program, ["explain-locks", "vacuum t"])
    assert unknown.exit_code != 0
    assert "VACUUM T" in unknown.stderr
    assert "Traceback" not in unknown.output
    assert site.metastore.locks.show() == []

"""Partitions that a program adds, in a metastore that a live Hive uses."""

from __future__ import annotations

from datetime import date
from typing import Any

import pyarrow as pa

from compactor.metastore.schema import tables as t
from compactor.tables.store import Store
from tests.support.beside import Beside

DAY = date(2026, 11, 1)
_ODD = "a b=c/d%"


def _rows(beside: Beside, table: Any) -> list[dict[str, Any]]:
    with beside.site.metastore.database.read() as conn:
        return [dict(row) for row in conn.execute(table.select()).mappings()]


def test_hive_reads_changes_and_compacts_partitions_that_a_program_added(beside: Beside) -> None:
    """PROTOCOL 14.9: their rows are those of partitions that Hive itself adds."""
    hive = beside.hive
    hive.sql(
        "create table np (a int, b string) partitioned by (day date, s string) clustered by (a) into 2 buckets "
        "stored as orc tblproperties('transactional'='true')"
    )
    hive.sql("insert into np partition (day='2026-11-01', s='hive') values (1, 'theirs')")
    table = Store(beside.site).load_table("default.np")
    rows = pa.table({"a": [2, 3, 4], "b": ["x", "y", "z"], "day": [DAY] * 3, "s": [_ODD, None, _ODD]})
    assert table.append(rows) == 3
    assert table.append(pa.table({"a": [5], "b": ["w"]}), partition={"day": DAY, "s": "given"}) == 1

    assert sorted(hive.sql("show partitions np")) == [
        "day=2026-11-01/s=__HIVE_DEFAULT_PARTITION__",
        "day=2026-11-01/s=a b%3Dc%2Fd%25",
        "day=2026-11-01/s=given",
        "day=2026-11-01/s=hive",
    ]
    shown = sorted(hive.sql("select a, b, day, s from np"))
    assert shown == [
        "1\ttheirs\t2026-11-01\thive",
        f"2\tx\t2026-11-01\t{_ODD}",
        "3\ty\t2026-11-01\t__HIVE_DEFAULT_PARTITION__",
        f"4\tz\t2026-11-01\t{_ODD}",
        "5\tw\t2026-11-01\tgiven",
    ]
    assert hive.sql(f"select count(*) from np where s = '{_ODD}'") == ["2"]

    _are_like_hives(beside)

    hive.sql(f"update np set b = 'changed' where s = '{_ODD}' and a = 2")
    hive.sql(f"insert into np partition (day='2026-11-01', s='{_ODD}') values (6, 'more')")
    hive.sql("delete from np where a = 5")
    assert table.delete("a = 4") == 1
    found = table.scan(selected_fields=["a", "b"]).to_arrow().to_pylist()
    assert {row["a"]: row["b"] for row in found} == {1: "theirs", 2: "changed", 3: "y", 6: "more"}
    beside.compact("np", "major")
    assert sorted(hive.sql("select a, b from np")) == ["1\ttheirs", "2\tchanged", "3\ty", "6\tmore"]
    beside.clean_all()
    hive.sql("alter table np drop partition (s='given')")
    assert len(table.partitions) == 3


def test_both_name_partitions_of_texts_alike(beside: Beside) -> None:
    """Of a char with the blanks that fill it, of both cut to their length."""
    hive, name = beside.hive, "np_texts"
    hive.sql(
        f"create table {name} (a int) partitioned by (c char(3), v varchar(2)) stored as orc "
        "tblproperties('transactional'='true')"
    )
    hive.sql(f"insert into {name} values (1, 'q', 'abc')")
    table = Store(beside.site).load_table(f"default.{name}")
    assert table.append(pa.table({"a": [2, 3], "c": ["q", ""], "v": ["ab", "x"]})) == 2
    beside.ours("--set", "compactor.mode=clean", "sql", f"insert into {name} partition (c='wxyz', v='y') values (4)")
    hive.sql(f"insert into {name} values (5, '', 'x'), (6, 'wxy', 'y')")
    assert sorted(hive.sql(f"show partitions {name}")) == ["c=   /v=x", "c=q  /v=ab", "c=wxy/v=y"]
    assert table.upsert(pa.table({"a": [2], "c": ["q"], "v": ["ab"]}), ["a", "c"]).updated == 1
    beside.scanned(name)
    assert len(table.scan("c = ''").to_arrow()) == 2
    hive.sql(f"truncate table {name} partition (c='q  ', v='ab')")
    assert sorted(row["a"] for row in table.scan().to_arrow().to_pylist()) == [3, 4, 5, 6]


def _are_like_hives(beside: Beside) -> None:
    """Compares the rows of our partitions with those of the one that Hive added; the serde's parameters, which are the
    table's here, an INSERT of Hive leaves out."""
    partitions = {row["PART_NAME"].rpartition("=")[2]: row for row in _rows(beside, t.PARTITIONS)}
    storages = {row["SD_ID"]: row for row in _rows(beside, t.SDS)}
    serdes = {row["SERDE_ID"]: row for row in _rows(beside, t.SERDES)}
    theirs, ours = partitions["hive"], partitions["given"]
    assert ours.keys() == theirs.keys()
    assert ours["TBL_ID"] == theirs["TBL_ID"]
    assert ours["WRITE_ID"] == 3
    assert ours["LAST_ACCESS_TIME"] == theirs["LAST_ACCESS_TIME"]
    of_ours, of_theirs = storages[ours["SD_ID"]], storages[theirs["SD_ID"]]
    own = {"SD_ID", "SERDE_ID", "LOCATION"}
    assert {k: v for k, v in of_ours.items() if k not in own} == {k: v for k, v in of_theirs.items() if k not in own}
    assert of_ours["LOCATION"] == of_theirs["LOCATION"].replace("s=hive", "s=given")
    plain, other = serdes[of_ours["SERDE_ID"]], serdes[of_theirs["SERDE_ID"]]
    assert {k: v for k, v in plain.items() if k != "SERDE_ID"} == {k: v for k, v in other.items() if k != "SERDE_ID"}
    for table in (t.BUCKETING_COLS, t.SORT_COLS):
        assert _of(beside, table, "SD_ID", of_ours) == _of(beside, table, "SD_ID", of_theirs)
    keys = {key for key, _ in _of(beside, t.PARTITION_PARAMS, "PART_ID", theirs)}
    assert "transient_lastDdlTime" in keys


def _of(beside: Beside, table: Any, key: str, owner: dict[str, Any]) -> list[tuple[Any, ...]]:
    rows = [row for row in _rows(beside, table) if row[key] == owner[key]]
    return sorted(tuple(value for name, value in row.items() if name != key) for row in rows)

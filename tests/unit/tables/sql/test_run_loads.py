"""LOAD DATA LOCAL: the rows of files are the table's, and the files stay."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import orc

from compactor.base.errors import (
    BadFile,
    BadStatement,
    CompactorError,
    NotConforming,
    NotFound,
    NotSupported,
    Refused,
    StorageError,
)
from compactor.site.site import Site
from compactor.tables.sql.run_loads import list_local_files, must_have_table_columns, read_rows
from compactor.tables.sql.run_statements import check_text, run
from compactor.tables.store import Store
from tests.support.passes import compact

Sql = Callable[[str], list[Mapping[str, object]]]


@pytest.fixture
def sql(deployment: Site, warehouse: Path) -> Sql:
    """Runs a text, and returns the rows of its last statement; ``t(a, b)`` has one row, ``p(a, b)`` partitioned none."""
    deployment.metastore.embedded_catalog.create_database("default", str(warehouse))

    def of(text: str) -> list[Mapping[str, object]]:
        return [list(answer.rows) for answer in run(deployment, check_text(text))][-1]

    of("create table t (a int, b string); insert into t values (0, 'old')")
    of("create table p (a int, b string) partitioned by (day date)")
    return of


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A directory with two files of rows for ``t`` and ``p``, and one that is hidden."""
    made = tmp_path / "files"
    made.mkdir()
    write(made / "1.orc", {"A": [1, 2], "b": ["x", None]})
    write(made / "000000_0", {"_col0": [3], "_col1": ["z"]})
    (made / "_SUCCESS").touch()
    return made


def write(path: Path, columns: Mapping[str, list[object]]) -> None:
    arrays = {name: pa.array(of, pa.int32() if isinstance(of[0], int) else None) for name, of in columns.items()}
    orc.write_table(pa.table(arrays), path)


def test_rows_of_files_are_appended_and_the_files_stay(sql: Sql, files: Path, deployment: Site) -> None:
    before = {path.name: path.read_bytes() for path in files.iterdir()}
    [said] = sql(f"load data local inpath '{files}' into table t")
    assert (said["rows"], said["files"]) == (3, ["000000_0", "1.orc"])
    wanted = [(0, "old"), (1, "x"), (2, None), (3, "z")]
    assert sorted((row["a"], row["b"]) for row in sql("select * from t")) == wanted
    assert {path.name: path.read_bytes() for path in files.iterdir()} == before
    sql("update t set b = 'new' where a = 2")
    compact(deployment, table="default.t")
    wanted[2] = (2, "new")
    assert sorted((row["a"], row["b"]) for row in sql("select * from t")) == wanted


def test_row_ids_are_those_that_hive_gives_them(sql: Sql, files: Path) -> None:
    """hive_live.md: (write ID of the delta, 536870912, number within the files)."""
    sql(f"load data local inpath '{files}' into table t")
    found = sql("select row__id, a from t where a > 0")
    assert [row["row__id"] for row in found] == [
        {"writeid": 2, "bucketid": 536870912, "rowid": number} for number in range(3)
    ]


def test_one_file_is_loaded_into_a_partition_and_over_it(sql: Sql, files: Path) -> None:
    sql(f"load data local inpath '{files}/1.orc' into table p partition (day='2026-11-01')")
    sql(f"load data local inpath '{files}/1.orc' into table p partition (day='2026-11-02')")
    sql(f"load data local inpath '{files}/000000_0' overwrite into table p partition (day='2026-11-01')")
    assert sorted((row["a"], str(row["day"])) for row in sql("select a, day from p")) == [
        (1, "2026-11-02"),
        (2, "2026-11-02"),
        (3, "2026-11-01"),
    ]
    sql(f"load data local inpath '{files}' overwrite into table t")
    assert sql("select count(*) from t") == [{"count(*)": 3}]


@pytest.mark.parametrize("form", ["file:{}", "file://{}", "{}/../files"])
def test_a_path_has_the_forms_that_hive_takes(sql: Sql, files: Path, form: str) -> None:
    assert sql(f"load data local inpath '{form.format(files)}' into table t")[0]["rows"] == 3


@pytest.mark.parametrize(
    ("text", "error", "said"),
    [
        ("load data local inpath '' into table t", Refused, "the path is empty"),
        (f"load data local inpath '{{0}}/{'x' * 300}' into table t", StorageError, "cannot read .*name too long"),
        ("load data inpath '{0}' into table t", NotSupported, "takes files away.* LOAD DATA LOCAL INPATH"),
        ("load data local inpath '{0}/nothing' into table t", Refused, "nothing does not exist"),
        ("load data local inpath '{0}/empty' into table t", Refused, "empty holds no file"),
        ("load data local inpath '{0}/deep' into table t", Refused, "holds in, which is not a regular file"),
        ("load data local inpath '{0}/text' into table t", BadFile, "text"),
        (
            "load data local inpath '{0}/other.orc' into table t",
            NotConforming,
            "has column c string; expected a int, b",
        ),
        (
            "load data local inpath '{0}/wide.orc' into table t",
            NotConforming,
            "has column a bigint; expected a int",
        ),
        (
            "load data local inpath '{0}/few.orc' into table t",
            NotConforming,
            "has 1 columns; expected a int, b string",
        ),
        ("load data local inpath '{0}' into table p", NotSupported, r"give the value of day in PARTITION"),
        ("load data local inpath '{0}' into table p partition (x=1)", NotFound, "no partition key 'x'"),
        ("load data local inpath '{0}' into table nowhere", NotFound, "nowhere"),
        ("load data local inpath '{0}' into table t inputformat 'x'", BadStatement, "the end is expected before"),
        ("start transaction; load data local inpath '{0}' into table t; commit", BadStatement, "not allowed in a tr"),
    ],
)
def test_what_is_not_loaded_changes_nothing(
    sql: Sql, files: Path, deployment: Site, text: str, error: type[CompactorError], said: str
) -> None:
    (files.parent / "files2").mkdir()
    place = files.parent / "files2"
    (place / "empty").mkdir()
    (place / "deep/in").mkdir(parents=True)
    (place / "deep/in/file").touch()
    (place / "text").write_text("a,b\n1,x\n")
    write(place / "other.orc", {"a": [1], "c": ["x"]})
    orc.write_table(pa.table({"a": [1], "b": ["x"]}), place / "wide.orc")
    write(place / "few.orc", {"a": [1]})
    with pytest.raises(error, match=said):
        sql(text.format(place))
    assert sql("select * from t") == [{"a": 0, "b": "old"}]
    assert sql("show partitions p") == []
    assert deployment.metastore.transactions.open_transactions() == []


def test_files_of_an_acid_table_are_refused(sql: Sql, warehouse: Path) -> None:
    with pytest.raises(NotConforming, match="bucket_00000 has ACID columns"):
        sql(f"load data local inpath '{warehouse}/t/delta_0000001_0000001_0000/bucket_00000' into table t")
    assert sql("select count(*) from t") == [{"count(*)": 1}]


def test_values_are_read_in_the_tables_types(deployment: Site, warehouse: Path, tmp_path: Path) -> None:
    store = Store(deployment)
    store.create_database("d", str(warehouse))
    made = store.create_table("d.t", {"t": "timestamp", "d": "decimal(5,2)", "l": "array<int>"})
    rows = pa.table(
        {
            "t": pa.array([datetime(2026, 11, 1, 1, 2, 3, 456789), None], pa.timestamp("ns")),
            "d": pa.array([Decimal("1.50"), None], pa.decimal128(5, 2)),
            "l": pa.array([[1, None], None], pa.list_(pa.int32())),
        }
    )
    orc.write_table(rows, tmp_path / "rows.orc", batch_size=1)
    table = deployment.metastore.catalog.table("d", "t")
    folder, files = list_local_files(deployment, str(tmp_path / "rows.orc"))
    must_have_table_columns(deployment, table, folder, files)
    assert made.append(read_rows(deployment, table, folder, files)) == 2
    found = made.scan().to_arrow()
    assert found.cast(rows.schema).to_pylist() == rows.to_pylist()
    orc.write_table(rows.slice(0, 1), tmp_path / "rows.orc")
    with pytest.raises(StorageError, match=r"changed while it was loaded.*rows\.orc"):
        made.append(read_rows(deployment, table, folder, files))
    assert made.scan().count() == 2
    narrow = store.create_table("d.n", {"t": "timestamp", "d": "decimal(4,2)", "l": "array<int>"})
    orc.write_table(rows, tmp_path / "rows.orc")
    with pytest.raises(NotConforming, match=r"has column d decimal\(5,2\)"):
        must_have_table_columns(deployment, deployment.metastore.catalog.table("d", "n"), folder, files)
    assert narrow.scan().count() == 0

"""Our models, the files under ``sql/`` and Hive's own scripts say the same, column for column."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import Dialect, Engine, NullPool, create_engine, inspect
from sqlalchemy.types import TypeEngine

from compactor.database.engine import open_database
from compactor.metastore.metastore import open_metastore
from compactor.metastore.schema import create
from compactor.metastore.schema.detect import dialect_for
from compactor.metastore.schema.tables import metadata
from tests.support import servers
from tests.support.hive4 import HIVE_4_1
from tests.support.hive42 import HIVE_4_2

SQL = Path(__file__).parents[2] / "sql"

#: Where a schema is narrower than the models, which are Hive 4's on PostgreSQL; nothing is written there.
_NAMES_31 = {
    "COMPACTION_QUEUE.CQ_TABLE": ("VARCHAR(256)", "VARCHAR(128)"),
    "COMPLETED_COMPACTIONS.CC_TABLE": ("VARCHAR(256)", "VARCHAR(128)"),
    "HIVE_LOCKS.HL_TABLE": ("VARCHAR(256)", "VARCHAR(128)"),
    "TXN_COMPONENTS.TC_TABLE": ("VARCHAR(256)", "VARCHAR(128)"),
    "WRITE_SET.WS_TABLE": ("VARCHAR(256)", "VARCHAR(128)"),
}
_EXACT = " CHARACTER SET latin1 COLLATE latin1_bin"
_NULLABLE = {"VERSION.VERSION_COMMENT": ("VARCHAR(255) NOT NULL", "VARCHAR(255)")}
DIFFERENT: dict[tuple[str, str], dict[str, tuple[str, str]]] = {
    ("postgresql", "4.0.0"): {},
    ("postgresql", "4.1.0"): {},
    ("postgresql", "4.2.0"): {},
    ("mysql", "4.0.0"): _NULLABLE,
    ("postgresql", "3.1.0"): _NAMES_31
    | {
        "DBS.CTLG_NAME": ("VARCHAR(256) NOT NULL", "VARCHAR(256)"),
        "PARTITION_PARAMS.PARAM_VALUE": ("TEXT", "VARCHAR(4000)"),
    },
    ("mysql", "3.1.0"): _NAMES_31
    | _NULLABLE
    | {
        "COLUMNS_V2.COMMENT": (f"VARCHAR(4000){_EXACT}", f"VARCHAR(256){_EXACT}"),
        "PARTITION_PARAMS.PARAM_VALUE": (f"MEDIUMTEXT{_EXACT}", f"VARCHAR(4000){_EXACT}"),
    },
}

#: Schemas whose scripts are in none of their releases' jars, by what changed since 4.0.
LATER = {"4.1.0": HIVE_4_1.schema, "4.2.0": HIVE_4_2.schema}


def words(type: TypeEngine[object], nullable: bool, dialect: Dialect) -> str:
    text = type.compile(dialect)
    for width in ("(11)", "(20)"):  # a display width says nothing, and newer MySQLs leave it out
        text = text.replace(f"INTEGER{width}", "INTEGER").replace(f"BIGINT{width}", "BIGINT")
    return text if nullable else f"{text} NOT NULL"


def columns(engine: Engine) -> dict[str, dict[str, str]]:
    """The tables and columns of the database, by upper-case names."""
    found = inspect(engine).get_multi_columns()
    return {
        table.upper(): {c["name"].upper(): words(c["type"], c["nullable"], engine.dialect) for c in of_table}
        for (_, table), of_table in found.items()
    }


@pytest.fixture
def database(request: pytest.FixtureRequest, server: Callable[[str], servers.Server]) -> Iterator[str]:
    """An empty database of the server that the test's parameter names; its URL."""
    yield server(request.param).make("scratch")
    server(request.param).drop("scratch")


def opened(url: str) -> Engine:
    return create_engine(url, poolclass=NullPool)


@pytest.mark.parametrize(("kind", "version"), list(DIFFERENT))
def test_models_are_hives_tables(kind: str, version: str, server: Callable[[str], servers.Server]) -> None:
    """Every table and column of ours is there as we think, and nothing in our tables is unknown to us."""
    script = LATER[version]() if version in LATER else servers.hive_schema(kind, version)
    url = server(kind).make("official", script)
    try:
        engine = opened(url)
        dialect, official = dialect_for(kind, version, url), columns(engine)
    finally:
        server(kind).drop("official")
    assert dialect.missing_tables == set(metadata.tables) - set(official)
    different = {}
    for table in metadata.sorted_tables:
        if not dialect.has(table):
            continue
        ours = {c.name: words(c.type, bool(c.nullable), engine.dialect) for c in table.columns}
        missing = {name for name in ours if f"{table.name}.{name}" in dialect.missing_columns}
        assert set(official[table.name]) == set(ours) - missing, table.name
        for name in set(ours) - missing:
            if ours[name] != official[table.name][name]:
                different[f"{table.name}.{name}"] = (ours[name], official[table.name][name])
    assert different == _marked(DIFFERENT[kind, version])


def _marked(expected: dict[str, tuple[str, str]]) -> dict[str, tuple[str, str]]:
    """Both sides with NOT NULL where the model's column has it and the entry doesn't speak of it."""
    marked = {}
    for key, (ours, theirs) in expected.items():
        table, column = key.split(".")
        if ours.endswith("NOT NULL") or metadata.tables[table].columns[column].nullable:
            marked[key] = (ours, theirs)
        else:
            marked[key] = (f"{ours} NOT NULL", f"{theirs} NOT NULL")
    return marked


@pytest.mark.parametrize("database", servers.NAMES, indirect=True)
def test_a_schema_of_ours_is_made_and_used(database: str) -> None:
    made = open_database(database)
    create.create(made)
    create.create(made)
    made.close()
    metastore = open_metastore("default", database)
    assert metastore.transactions.open("u", "h", count=2) == [1, 2]
    with metastore.database.read() as conn:
        row = conn.exec_driver_sql("SELECT * FROM COMPACTOR_V_TRANSACTIONS").first()
        assert row is not None
        assert (row.state, row.started_at[:2], row.started_at[-1], len(row.started_at)) == ("open", "20", "Z", 24)
        for view in ("COMPACTIONS", "LOCKS", "ABORTED"):
            assert conn.exec_driver_sql(f"SELECT * FROM COMPACTOR_V_{view}").all() == []
    metastore.close()


@pytest.mark.parametrize("database", servers.NAMES, indirect=True)
def test_the_files_make_the_same_as_the_code(
    database: str, server: Callable[[str], servers.Server], request: pytest.FixtureRequest
) -> None:
    kind, name = opened(database).dialect.name, request.node.callspec.params["database"]
    made = open_database(database)
    create.create(made)
    made.close()
    parts = (SQL / f"hive-schema-4.0.0.{kind}.sql", SQL / f"views.{kind}.sql")
    by_file = server(name).make("by_file", "\n".join(part.read_text(encoding="utf-8") for part in parts))
    try:
        assert columns(opened(by_file)) == columns(opened(database))
        assert inspect(opened(by_file)).get_multi_indexes() == inspect(opened(database)).get_multi_indexes()
        assert set(inspect(opened(by_file)).get_view_names()) == set(inspect(opened(database)).get_view_names())
        with opened(by_file).connect() as conn:
            names = opened(by_file).dialect.identifier_preparer.quote
            assert conn.exec_driver_sql(f"SELECT {names('TXN_ID')} FROM {names('TXNS')}").scalars().all() == [0]
    finally:
        server(name).drop("by_file")


@pytest.mark.parametrize("database", servers.NAMES, indirect=True)
def test_indexes_are_hives(
    database: str, server: Callable[[str], servers.Server], request: pytest.FixtureRequest
) -> None:
    """Primary keys and unique indexes decide races (first write ID of a table, first lock of a name)."""
    made = open_database(database)
    create.create(made)
    made.close()
    kind, name = opened(database).dialect.name, request.node.callspec.params["database"]
    official = server(name).make("official", servers.hive_schema(kind, "4.0.0"))
    try:
        ours, theirs = _keys(opened(database)), _keys(opened(official))
    finally:
        server(name).drop("official")
    assert {table: theirs[table] for table in ours} == ours


def _keys(engine: Engine) -> dict[str, set[tuple[str, ...]]]:
    keys: dict[str, set[tuple[str, ...]]] = {}
    with engine.connect() as conn:
        found = inspect(conn)
        for table in metadata.tables:
            keys[table] = {tuple(found.get_pk_constraint(table)["constrained_columns"])}
            keys[table] |= {tuple(i["column_names"]) for i in found.get_indexes(table) if i["unique"]}
            keys[table] |= {tuple(u["column_names"]) for u in found.get_unique_constraints(table)}
    return keys

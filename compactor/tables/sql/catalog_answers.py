"""SHOW and DESCRIBE of databases, tables and partitions, from the catalog."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from compactor.base.errors import NotFound
from compactor.base.redaction import redact_value
from compactor.metastore.catalog.embedded import ORC_INPUT
from compactor.metastore.catalog.values import Table
from compactor.statements import parsed_actions
from compactor.statements.statement import Statement
from compactor.tables.sql.answer import Answer
from compactor.tables.sql.named_partitions import matching
from compactor.tables.sql.sql_session import Session

_DESCRIBED = ("col_name", "data_type", "comment")


def databases(session: Session, statement: Statement, asked: parsed_actions.ShowDatabases) -> Answer:
    """Answers SHOW DATABASES."""
    names = sorted(session.site.metastore.catalog.databases())
    return _names(statement, "database_name", _like(names, asked.like), "there is no such database")


def tables(session: Session, statement: Statement, asked: parsed_actions.ShowTables) -> Answer:
    """Answers SHOW TABLES.

    Raises:
        NotFound: there is no such database.
    """
    catalog, wanted = session.site.metastore.catalog, asked.database or session.database
    if wanted not in catalog.databases():
        raise NotFound(f"database {wanted} is not in the metastore")
    names = sorted(table for database, table in catalog.names() if database == wanted)
    return _names(statement, "tab_name", _like(names, asked.like), "there is no such table")


def partitions(session: Session, statement: Statement, asked: parsed_actions.ShowPartitions) -> Answer:
    """Answers SHOW PARTITIONS.

    Raises:
        Refused: the table is not partitioned.
    """
    found = matching(session.site.metastore.catalog, session.found(asked.table), asked.partition)
    return _names(statement, "partition", sorted(part.name for part in found), "there is no such partition")


def create_table(session: Session, statement: Statement, asked: parsed_actions.ShowCreateTable) -> Answer:
    """Answers SHOW CREATE TABLE."""
    text = definition(session.found(asked.table))
    return Answer(statement=statement.name, rows=[{"createtab_stmt": text}], said=text)


def describe(session: Session, statement: Statement, asked: parsed_actions.Describe) -> Answer:
    """Answers DESCRIBE; EXTENDED and FORMATTED say the same of the table itself."""
    table = session.found(asked.table)
    rows = [_described(column.name, column.type) for column in table.columns]
    rows += [_described(key.name, key.type, "partition column") for key in table.partition_keys]
    if asked.detailed:
        facts = {
            "# database": table.database,
            "# owner": table.owner or "",
            "# location": table.location,
            "# type": table.type,
            "# buckets": str(table.buckets),
            "# bucket columns": ", ".join(table.bucket_columns),
            "# input format": table.input_format or "",
        }
        rows += [_described(name, value) for name, value in facts.items()]
        parameters = sorted(table.parameters.items())
        rows += [_described(f"# parameter {key}", redact_value(key, value)) for key, value in parameters]
    return Answer(statement=statement.name, rows=rows, columns=_DESCRIBED)


def definition(table: Table) -> str:
    """Returns the statement that creates a table like this, which this parser reads if the table is a full ACID one."""
    lines = [f"CREATE {'EXTERNAL ' if table.is_external else ''}TABLE {_name(table.database)}.{_name(table.name)} ("]
    lines.append(",\n".join(f"  {_name(column.name)} {column.type}" for column in table.columns) + ")")
    if table.partition_keys:
        keys = ", ".join(f"{_name(key.name)} {key.type}" for key in table.partition_keys)
        lines.append(f"PARTITIONED BY ({keys})")
    if table.bucket_columns:
        sorts = f" SORTED BY ({', '.join(map(_name, table.sort_columns))})" if table.sort_columns else ""
        columns = ", ".join(map(_name, table.bucket_columns))
        lines.append(f"CLUSTERED BY ({columns}){sorts} INTO {table.buckets} BUCKETS")
    is_orc = table.input_format in (None, ORC_INPUT)
    lines.append("STORED AS ORC" if is_orc else f"STORED AS INPUTFORMAT {_text(table.input_format or '')}")
    lines.append(f"LOCATION {_text(table.location)}")
    if table.parameters:
        pairs = ",\n".join(f"  {_text(key)}={_text(value)}" for key, value in sorted(table.parameters.items()))
        lines.append(f"TBLPROPERTIES (\n{pairs})")
    return "\n".join(lines)


def _described(name: str, kind: str, comment: str | None = None) -> Mapping[str, object]:
    return {"col_name": name, "data_type": kind, "comment": comment}


def _names(statement: Statement, column: str, names: Iterable[str], empty: str) -> Answer:
    return Answer(statement=statement.name, rows=[{column: name} for name in names], columns=(column,), said=empty)


def _like(names: Iterable[str], pattern: str | None) -> list[str]:
    """Returns the names that a pattern of Hive matches: ``*`` and ``%`` any text, ``_`` a character, ``|`` either side."""
    if pattern is None:
        return list(names)
    parts = re.split(r"([*%_|])", pattern.strip().lower())
    translated = "".join({"*": ".*", "%": ".*", "_": ".", "|": "|"}.get(part) or re.escape(part) for part in parts)
    return [name for name in names if re.fullmatch(translated, name)]


def _name(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def _text(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n")
    return f"'{escaped}'"

"""SHOW and DESCRIBE of databases, tables and partitions, from the catalog."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from compactor.base.errors import NotFound
from compactor.base.redaction import redact_value
from compactor.metastore.catalog.embedded import ORC_INPUT
from compactor.metastore.catalog.values import Table
from compactor.statements import parsed_actions
from compactor.statements.parsed_actions import Statement
from compactor.tables.sql.named_partitions import find_partitions
from compactor.tables.sql.sql_session import Answer, Session

_DESCRIBED = ("col_name", "data_type", "comment")


def show_databases(session: Session, statement: Statement, action: parsed_actions.ShowDatabases) -> Answer:
    """Answers SHOW DATABASES."""
    names = sorted(session.site.metastore.catalog.databases())
    return _list_names(statement, "database_name", _filter_names(names, action.like), "there is no such database")


def show_tables(session: Session, statement: Statement, action: parsed_actions.ShowTables) -> Answer:
    """Answers SHOW TABLES.

    Raises:
        NotFound: there is no such database.
    """
    catalog, current = session.site.metastore.catalog, action.database or session.database
    if current not in catalog.databases():
        raise NotFound(f"database {current} is not in the metastore")
    names = sorted(table for database, table in catalog.names() if database == current)
    return _list_names(statement, "tab_name", _filter_names(names, action.like), "there is no such table")


def show_partitions(session: Session, statement: Statement, action: parsed_actions.ShowPartitions) -> Answer:
    """Answers SHOW PARTITIONS.

    Raises:
        Refused: the table is not partitioned.
    """
    matches = find_partitions(session.site.metastore.catalog, session.load_table(action.table), action.partition)
    return _list_names(statement, "partition", sorted(part.name for part in matches), "there is no such partition")


def show_create_table(session: Session, statement: Statement, action: parsed_actions.ShowCreateTable) -> Answer:
    """Answers SHOW CREATE TABLE."""
    text = render_create_table(session.load_table(action.table))
    return Answer(statement=statement.name, rows=[{"createtab_stmt": text}], message=text)


def describe(session: Session, statement: Statement, action: parsed_actions.Describe) -> Answer:
    """Answers DESCRIBE; EXTENDED and FORMATTED add the same facts about the table."""
    table = session.load_table(action.table)
    rows = [_describe_field(column.name, column.type) for column in table.columns]
    rows += [_describe_field(key.name, key.type, "partition column") for key in table.partition_keys]
    if action.detailed:
        facts = {
            "# database": table.database,
            "# owner": table.owner or "",
            "# location": table.location,
            "# type": table.type,
            "# buckets": str(table.buckets),
            "# bucket columns": ", ".join(table.bucket_columns),
            "# input format": table.input_format or "",
        }
        rows += [_describe_field(name, value) for name, value in facts.items()]
        parameters = sorted(table.parameters.items())
        rows += [_describe_field(f"# parameter {key}", redact_value(key, value)) for key, value in parameters]
    return Answer(statement=statement.name, rows=rows, columns=_DESCRIBED)


def render_create_table(table: Table) -> str:
    """Returns a CREATE TABLE for this table; our parser reads it if the table is full ACID."""
    lines = [
        f"CREATE {'EXTERNAL ' if table.is_external else ''}TABLE {_quote_name(table.database)}.{_quote_name(table.name)} ("
    ]
    lines.append(",\n".join(f"  {_quote_name(column.name)} {column.type}" for column in table.columns) + ")")
    if table.partition_keys:
        keys = ", ".join(f"{_quote_name(key.name)} {key.type}" for key in table.partition_keys)
        lines.append(f"PARTITIONED BY ({keys})")
    if table.bucket_columns:
        sorts = f" SORTED BY ({', '.join(map(_quote_name, table.sort_columns))})" if table.sort_columns else ""
        columns = ", ".join(map(_quote_name, table.bucket_columns))
        lines.append(f"CLUSTERED BY ({columns}){sorts} INTO {table.buckets} BUCKETS")
    is_orc = table.input_format in (None, ORC_INPUT)
    lines.append("STORED AS ORC" if is_orc else f"STORED AS INPUTFORMAT {_quote_text(table.input_format or '')}")
    lines.append(f"LOCATION {_quote_text(table.location)}")
    if table.parameters:
        pairs = ",\n".join(
            f"  {_quote_text(key)}={_quote_text(value)}" for key, value in sorted(table.parameters.items())
        )
        lines.append(f"TBLPROPERTIES (\n{pairs})")
    return "\n".join(lines)


def _describe_field(name: str, kind: str, comment: str | None = None) -> Mapping[str, object]:
    return {"col_name": name, "data_type": kind, "comment": comment}


def _list_names(statement: Statement, column: str, names: Iterable[str], empty: str) -> Answer:
    return Answer(statement=statement.name, rows=[{column: name} for name in names], columns=(column,), message=empty)


def _filter_names(names: Iterable[str], pattern: str | None) -> list[str]:
    """Filters names by a pattern of Hive.

    ``*`` and ``%`` match any text, ``_`` a character, ``|`` is an or.
    """
    if pattern is None:
        return list(names)
    parts = re.split(r"([*%_|])", pattern.strip().lower())
    translated = "".join({"*": ".*", "%": ".*", "_": ".", "|": "|"}.get(part) or re.escape(part) for part in parts)
    return [name for name in names if re.fullmatch(translated, name)]


def _quote_name(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def _quote_text(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n")
    return f"'{escaped}'"

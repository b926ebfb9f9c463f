"""LOAD DATA LOCAL: loads the rows of ORC files on this machine; the files stay where they are."""

from __future__ import annotations

from compactor.base.errors import NotSupported
from compactor.statements import parsed_actions
from compactor.statements.statement import Statement
from compactor.tables.sql.answer import Answer, build_result, format_count
from compactor.tables.sql.named_partitions import key_values
from compactor.tables.sql.sql_session import Session
from compactor.tables.writing.append import must_be_writable
from compactor.tables.writing.loading import list_local_files, must_have_table_columns, read_rows


def load(session: Session, statement: Statement, action: parsed_actions.Load) -> Answer:
    """Appends the rows of files to a table, or replaces its rows by them.

    Raises:
        NotConforming: a file has other columns than the table.
        BadFile: a file is not ORC, or is damaged.
        NotFound: the table or a partition key does not exist.
        NotSupported: we do not write such a table, or a partition key has no value.
        Refused, LockNotGranted, TransactionAborted, WriteConflict: as for ``Table.append`` and ``Table.overwrite``; Refused
            also if the files do not exist.
    """
    stored = session.load_table(action.table)
    must_be_writable(session.site, stored)
    static = key_values(stored, action.partition)
    if missing := [key.name for key in stored.partition_keys if key.name.lower() not in static]:
        raise NotSupported(
            f"{stored}: the files of LOAD DATA have no partition columns; give the value of {missing[0]} in PARTITION (…)"
        )
    folder, files = list_local_files(session.site, action.path)
    must_have_table_columns(session.site, stored, folder, files)
    table = session.open_table(stored)
    write = table.overwrite if action.overwrite else table.append
    count = write(read_rows(session.site, stored, folder, files), partition=static or None)
    message = f"{stored}: {format_count(count)} loaded from {len(files)} files"
    return build_result(statement.name, message, table=str(stored), rows=count, files=[file.path for file in files])

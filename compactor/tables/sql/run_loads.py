"""LOAD DATA LOCAL: rows of files of ORC on this machine, which stay where they are."""

from __future__ import annotations

from compactor.base.errors import NotSupported
from compactor.statements import parsed_actions
from compactor.statements.statement import Statement
from compactor.tables.sql.answer import Answer, counted, done
from compactor.tables.sql.named_partitions import key_values
from compactor.tables.sql.sql_session import Session
from compactor.tables.writing.append import must_be_writable
from compactor.tables.writing.loading import local_files, must_have_its_columns, rows_of


def load(session: Session, statement: Statement, asked: parsed_actions.Load) -> Answer:
    """Appends the rows of files, or puts them in place of what is there.

    Raises:
        NotConforming: a file has other columns than the table.
        BadFile: one is not ORC, or is damaged.
        NotFound: there is no such table or partition key.
        NotSupported: the table is none that is written here, or a partition key has no value.
        Refused, LockNotGranted, TransactionAborted, WriteConflict: as ``Table.append`` and ``Table.overwrite`` say; Refused
            also if there are no such files.
    """
    found = session.found(asked.table)
    must_be_writable(session.site, found)
    static = key_values(found, asked.partition)
    if missing := [key.name for key in found.partition_keys if key.name.lower() not in static]:
        raise NotSupported(
            f"{found}: the files of LOAD DATA have no partition columns; give the value of {missing[0]} in PARTITION (…)"
        )
    folder, files = local_files(session.site, asked.path)
    must_have_its_columns(session.site, found, folder, files)
    table = session.opened(found)
    write = table.overwrite if asked.overwrite else table.append
    count = write(rows_of(session.site, found, folder, files), partition=static or None)
    said = f"{found}: {counted(count)} of {len(files)} files loaded"
    return done(statement.name, said, table=str(found), rows=count, files=[file.path for file in files])

"""``compactor sql "STATEMENT; ..."``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from compactor.base.errors import BadSetting
from compactor.cli.context import CliContext, with_context
from compactor.cli.output import print_json_line, print_table, say, with_progress

if TYPE_CHECKING:
    from compactor.tables.sql.sql_session import Answer


@click.command("sql")
@click.argument("text", metavar="[TEXT]", required=False)
@click.option("--file", "path", metavar="PATH", help="Read the statements from a file.")
@click.option("--database", metavar="DB", default="default", show_default=True, help="The current database.")
@with_context
def sql(context: CliContext, text: str | None, path: str | None, database: str) -> None:
    """Run SQL statements, separated by semicolons: TEXT, a file, or standard input.

    All are parsed before the first one runs. docs/sql.md lists them.
    """
    from compactor.statements.parser import only_reads
    from compactor.tables.sql.run_statements import check_text, run

    statements = check_text(_read_text(text, path))
    with context.site(read_only=only_reads(statements)) as site:
        for answer in run(site, statements, database.lower()):
            _print_answer(context, answer)


def _read_text(text: str | None, path: str | None) -> str:
    """Returns the text to run, without the byte-order mark that editors on Windows write.

    Raises:
        BadSetting: there are both a text and a file, or the file cannot be read.
    """
    if text is not None and path is not None:
        raise BadSetting("sql: a text and --file exclude each other; give one of them")
    if text not in (None, "-"):
        return str(text)
    try:
        if path is not None:
            return Path(path).read_text("utf-8-sig")
        return sys.stdin.buffer.read().decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise BadSetting(f"sql: {path or 'standard input'}: {error}") from error


def _print_answer(context: CliContext, answer: Answer) -> None:
    if context.json:
        for row in answer.rows:
            print_json_line(row, of_table=answer.whole)
    elif answer.statement == "SHOW COMPACTIONS":
        rows = [with_progress(row) for row in answer.rows]
        print_table(rows, (*answer.columns, "progress", "watch"), answer.message)
    elif answer.columns:
        print_table(list(answer.rows), answer.columns, answer.message, whole=answer.whole, of_table=answer.whole)
    else:
        for line in answer.message.split("\n"):
            say(line)

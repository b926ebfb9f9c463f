"""The program: its global options and commands, and how errors become messages and exit codes."""

from __future__ import annotations

import logging
import sys
from importlib import import_module
from typing import Any

import click

from compactor import __version__
from compactor.base.errors import BadSetting, CompactorError, NotFound
from compactor.base.printable import log_lines
from compactor.base.redaction import is_secret, remember
from compactor.cli.context import FAILED, USAGE, CliContext, parse_pairs
from compactor.cli.output import say

_CONNECTION = {
    "url": "COMPACTOR_METASTORE_URL",
    "state_url": "COMPACTOR_STATE_URL",
    "warehouse": "COMPACTOR_WAREHOUSE",
    "hive_conf": "COMPACTOR_HIVE_CONF",
}


#: The module in ``compactor.cli`` of each command. There the command has the same name, with underscores.
_MODULES = {
    "doctor": "doctor",
    "explain": "explain_commands",
    "explain-locks": "explain_commands",
    "sql": "sql",
    "changes": "changes_command",
    "overview": "overview_commands",
    "simulate": "overview_commands",
    "reads": "overview_commands",
    "metrics": "metrics_command",
    "show": "show",
    "plan": "explain_commands",
    "compact": "request_commands",
    "run": "run",
    "submit": "submit",
    "abort": "request_commands",
    "pause": "request_commands",
    "resume": "request_commands",
    "override": "request_commands",
    "resolve": "doubtful_directories",
    "claims": "doubtful_directories",
    "restore": "request_commands",
    "dump": "dump",
    "mirror": "mirror_commands",
    "metastore": "database_commands",
    "state": "database_commands",
}


class Program(click.Group):
    """A group that imports a command when it is used.

    Its commands report our own errors as one line and an exit code, without a traceback.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_MODULES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _MODULES:
            return None
        module = import_module(f"compactor.cli.{_MODULES[cmd_name]}")
        command: click.Command = getattr(module, cmd_name.replace("-", "_"))
        return command

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except CompactorError as error:
            say(f"compactor: {error}", err=True)
            sys.exit(USAGE if isinstance(error, BadSetting | NotFound) else FAILED)


def parse_settings(pairs: tuple[str, ...]) -> dict[str, str]:
    """Parses ``--set`` texts into a mapping.

    Raises:
        BadSetting: a text is not KEY=VALUE, or names a secret or a part of the connection.
    """
    settings = parse_pairs(pairs, "--set")
    for key, value in settings.items():
        if key in _CONNECTION:
            raise BadSetting(
                f"--set {key}: the connection is not a setting, and others can see command lines; use {_CONNECTION[key]} "
                "or compactor.toml"
            )
        if is_secret(key, value):
            remember(value)
            raise BadSetting(
                f"--set {key}: this is a secret, and others can see command lines; write it into compactor.toml"
            )
    return settings


@click.group(cls=Program, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="compactor")
@click.option("--metastore", metavar="NAME", default="default", help="The metastore in compactor.toml.")
@click.option(
    "--config",
    metavar="PATH",
    default=None,
    help="Path of compactor.toml. Default: COMPACTOR_CONFIG, or the file in the current directory.",
)
@click.option("--set", "pairs", metavar="KEY=VALUE", multiple=True, help="A setting; may be repeated.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("-v", "--verbose", count=True, help="Log what happens; twice for details.")
@click.pass_context
def program(
    ctx: click.Context, metastore: str, config: str | None, pairs: tuple[str, ...], as_json: bool, verbose: int
) -> None:
    """Keep Hive ACID tables fast.

    \b
    Exit codes: 0 done, 1 an entry, the pass or the action failed, 2 usage, a setting or a name that does
    not exist, 3 `compact` or `restore` refused, 4 wait timed out.
    """
    level = (logging.WARNING, logging.INFO, logging.DEBUG)[min(verbose, 2)]
    log_lines(level)
    for name in ("py4j", "pyspark", "sqlalchemy", "alembic"):
        logging.getLogger(name).setLevel(logging.WARNING)
    logging.getLogger("compactor.rewrite.run.runner").setLevel(min(level, logging.INFO))
    ctx.obj = CliContext(metastore=metastore, config=config, flags=parse_settings(pairs), json=as_json)

"""The global options of every command: metastore, configuration, settings, and whether to print JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec

import click

if TYPE_CHECKING:
    from compactor.site.deployment import Configuration
    from compactor.site.site import Site

DONE, FAILED, USAGE, REFUSED, TIMED_OUT = range(5)  #: exit codes
P = ParamSpec("P")


@dataclass(frozen=True, slots=True, kw_only=True)
class CliContext:
    """The global options of one call."""

    metastore: str = "default"
    config: str | None = None
    flags: Mapping[str, str] = field(default_factory=dict)
    json: bool = False

    def configuration(self) -> Configuration:
        """Returns the configuration; opens nothing.

        Raises:
            BadSetting: the configuration is wrong.
        """
        from compactor.site.deployment import configure

        return configure(self.metastore, flags=self.flags, config_path=self.config)

    @contextmanager
    def site(self, *, read_only: bool = False) -> Iterator[Site]:
        """Opens the site until the block ends; ``read_only`` for commands that only show, whatever the mode allows.

        Raises:
            CompactorError: it cannot be opened; the message says why.
        """
        from compactor.site.deployment import open_site

        with open_site(self.configuration(), read_only=read_only) as site:
            yield site


def with_context(command: Callable[Concatenate[CliContext, P], None]) -> Callable[P, None]:
    """Passes a command its context, and adds ``--json``, so that it may come before or after the command's name."""

    @click.option("--json", "own_json", is_flag=True, help="Print JSON.")
    @click.pass_obj
    @wraps(command)
    def wrapped(context: CliContext, own_json: bool, *args: Any, **kwargs: Any) -> None:
        command(replace(context, json=context.json or own_json), *args, **kwargs)

    return wrapped  # type: ignore[return-value]  # click passes the context

"""The context of every command: options, configuration, site, exit codes, options KEY=VALUE."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec

import click

from compactor.base.errors import BadSetting
from compactor.cli import collect_as_usual

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

        collect_as_usual()
        return configure(self.metastore, flags=self.flags, config_path=self.config)

    @contextmanager
    def site(self, *, read_only: bool = False) -> Iterator[Site]:
        """Opens the site until the block ends.

        Commands that only show pass ``read_only``, whatever the mode allows.

        Raises:
            CompactorError: the site cannot be opened.
        """
        from compactor.site.deployment import open_site

        with open_site(self.configuration(), read_only=read_only) as site:
            yield site


def with_context(command: Callable[Concatenate[CliContext, P], None]) -> Callable[P, None]:
    """Passes a command its context, and adds ``--json``.

    Users may write it before or after the command's name.
    """

    @click.option("--json", "own_json", is_flag=True, help="Print JSON.")
    @click.pass_obj
    @wraps(command)
    def wrapped(context: CliContext, own_json: bool, *args: Any, **kwargs: Any) -> None:
        command(replace(context, json=context.json or own_json), *args, **kwargs)

    return wrapped  # type: ignore[return-value]  # click passes the context


def parse_pairs(texts: Iterable[str], option: str) -> dict[str, str]:
    """Parses an option that users may repeat, KEY=VALUE, into a mapping.

    Raises:
        BadSetting: a text is not KEY=VALUE.
    """
    values: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise BadSetting(f"{option} {text!r}: expected KEY=VALUE")
        values[key.strip()] = value
    return values

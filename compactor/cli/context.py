"""What every command knows: which metastore, whose settings, and whether JSON is wanted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec

import click

if TYPE_CHECKING:
    from compactor.deployment import Configuration
    from compactor.service.site import Site

DONE, FAILED, USAGE, REFUSED, TIMED_OUT = range(5)  #: exit codes
P = ParamSpec("P")


@dataclass(frozen=True, slots=True, kw_only=True)
class Face:
    """The global options of one call."""

    metastore: str = "default"
    config: str | None = None
    flags: Mapping[str, str] = field(default_factory=dict)
    json: bool = False

    def configuration(self) -> Configuration:
        """What is configured, nothing opened.

        Raises:
            BadSetting: something in it is wrong.
        """
        from compactor.deployment import configure

        return configure(self.metastore, flags=self.flags, config_path=self.config)

    @contextmanager
    def site(self, *, read_only: bool = False) -> Iterator[Site]:
        """The open site; ``read_only`` for commands that only show, whatever the mode allows.

        Raises:
            CompactorError: it cannot be opened; the message says why.
        """
        from compactor.deployment import open_site

        with open_site(self.configuration(), read_only=read_only) as site:
            yield site


def faced(command: Callable[Concatenate[Face, P], None]) -> Callable[P, None]:
    """Gives a command its face, and a ``--json`` of its own, so that it may stand before or after the command."""

    @click.option("--json", "own_json", is_flag=True, help="Print JSON.")
    @click.pass_obj
    @wraps(command)
    def wrapped(face: Face, own_json: bool, *args: Any, **kwargs: Any) -> None:
        command(replace(face, json=face.json or own_json), *args, **kwargs)

    return wrapped  # type: ignore[return-value]  # click fills in the face

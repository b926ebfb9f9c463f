from __future__ import annotations

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from compactor.base.errors import BadSetting, DatabaseUnavailable
from compactor.cli.context import DONE, FAILED, REFUSED, TIMED_OUT, USAGE, CliContext, with_context
from compactor.metastore.metastore import Metastore


@click.command()
@click.argument("word")
@with_context
def say(context: CliContext, word: str) -> None:
    """A command like all others."""
    click.echo(f"{context.metastore} {context.json} {word}")


@pytest.mark.parametrize(
    ("context", "arguments", "output"),
    [
        (CliContext(), ["x"], "default False x"),
        (CliContext(), ["x", "--json"], "default True x"),
        (CliContext(), ["--json", "x"], "default True x"),
        (CliContext(metastore="west", json=True), ["x"], "west True x"),
    ],
)
def test_json_before_or_after_the_command(context: CliContext, arguments: list[str], output: str) -> None:
    assert CliRunner().invoke(say, arguments, obj=context).stdout == f"{output}\n"


def test_the_help_text_is_the_commands_own() -> None:
    output = CliRunner().invoke(say, ["--help"]).stdout
    assert "A command like all others." in output
    assert "--json" in output


def test_exit_codes_are_as_documented() -> None:
    assert (DONE, FAILED, USAGE, REFUSED, TIMED_OUT) == (0, 1, 2, 3, 4)


def test_flags_are_part_of_the_configuration(metastore_url: str) -> None:
    context = CliContext(flags={"url": metastore_url, "compactor.mode": "request"})
    found = context.configuration()
    assert (found.name, found.url, found.settings.mode) == ("default", metastore_url, "request")
    with pytest.raises(BadSetting, match=r"compactor\.moode"):
        CliContext(flags={"url": metastore_url, "compactor.moode": "request"}).configuration()


def test_a_command_that_only_shows_cannot_write(metastore: Metastore, metastore_url: str) -> None:
    context = CliContext(flags={"url": metastore_url})
    with context.site(read_only=True) as site, pytest.raises(DatabaseUnavailable, match="read-only"):
        site.metastore.transactions.open("u", "h")
    with context.site() as site:
        assert len(site.metastore.transactions.open("u", "h")) == 1


def test_another_metastore_is_looked_for_in_the_file(metastore: Metastore, metastore_url: str, tmp_path: Path) -> None:
    config = tmp_path / "c.toml"
    config.write_text(f'[metastore.west]\nurl = "{metastore_url}"\n', "utf-8")
    with CliContext(metastore="west", config=str(config)).site() as site:
        assert site.name == "west"
    with pytest.raises(BadSetting, match="'east'"):
        CliContext(metastore="east", config=str(config)).configuration()

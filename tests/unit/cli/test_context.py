from __future__ import annotations

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from compactor.cli.context import DONE, FAILED, REFUSED, TIMED_OUT, USAGE, Face, faced
from compactor.errors import BadSetting, DatabaseUnavailable
from compactor.metastore.store import Metastore


@click.command()
@click.argument("word")
@faced
def say(face: Face, word: str) -> None:
    """A command as all are."""
    click.echo(f"{face.metastore} {face.json} {word}")


@pytest.mark.parametrize(
    ("face", "arguments", "told"),
    [
        (Face(), ["x"], "default False x"),
        (Face(), ["x", "--json"], "default True x"),
        (Face(), ["--json", "x"], "default True x"),
        (Face(metastore="west", json=True), ["x"], "west True x"),
    ],
)
def test_json_before_or_after_the_command(face: Face, arguments: list[str], told: str) -> None:
    assert CliRunner().invoke(say, arguments, obj=face).stdout == f"{told}\n"


def test_its_help_is_the_commands_own() -> None:
    told = CliRunner().invoke(say, ["--help"]).stdout
    assert "A command as all are." in told
    assert "--json" in told


def test_exit_codes_are_as_documented() -> None:
    assert (DONE, FAILED, USAGE, REFUSED, TIMED_OUT) == (0, 1, 2, 3, 4)


def test_flags_are_part_of_the_configuration(metastore_url: str) -> None:
    face = Face(flags={"url": metastore_url, "compactor.mode": "request"})
    found = face.configuration()
    assert (found.name, found.url, found.settings.mode) == ("default", metastore_url, "request")
    with pytest.raises(BadSetting, match=r"compactor\.moode"):
        Face(flags={"url": metastore_url, "compactor.moode": "request"}).configuration()


def test_who_only_shows_cannot_write(metastore: Metastore, metastore_url: str) -> None:
    face = Face(flags={"url": metastore_url})
    with face.site(read_only=True) as site, pytest.raises(DatabaseUnavailable, match="read-only"):
        site.metastore.transactions.open("u", "h")
    with face.site() as site:
        assert len(site.metastore.transactions.open("u", "h")) == 1


def test_another_metastore_is_looked_for_in_the_file(metastore: Metastore, metastore_url: str, tmp_path: Path) -> None:
    config = tmp_path / "c.toml"
    config.write_text(f'[metastore.west]\nurl = "{metastore_url}"\n', "utf-8")
    with Face(metastore="west", config=str(config)).site() as site:
        assert site.name == "west"
    with pytest.raises(BadSetting, match="'east'"):
        Face(metastore="east", config=str(config)).configuration()

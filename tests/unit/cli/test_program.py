from __future__ import annotations

import subprocess
import sys

import pytest
from click.testing import CliRunner

from compactor.base.errors import BadSetting
from compactor.cli.program import parse_settings, program


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from compactor.cli.program import program; "
        "program(['--help'], standalone_mode=False); "
        "heavy = {'pyspark', 'pyarrow', 'sqlalchemy', 'numpy', 'rich', 'alembic', 'airflow'} & set(sys.modules); "
        "sys.exit(f'imported: {sorted(heavy)}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Keep Hive ACID tables fast" in done.stdout


@pytest.mark.parametrize(
    "command",
    [
        "doctor",
        "explain",
        "explain-locks",
        "show",
        "plan",
        "compact",
        "run",
        "submit",
        "abort",
        "resume",
        "dump",
        "metastore",
        "state",
    ],
)
def test_every_command_has_help(command: str) -> None:
    result = CliRunner().invoke(program, [command, "--help"])
    assert result.exit_code == 0
    assert "Usage" in result.stdout


def test_settings_are_pairs() -> None:
    assert parse_settings(("a.b=1", "c=x=y")) == {"a.b": "1", "c": "x=y"}


@pytest.mark.parametrize("pair", ["nothing", "=1", "url=sqlite:///x", "state_url=x", "hive_conf=x", "warehouse=/w"])
def test_a_setting_without_key_or_value_is_refused(pair: str) -> None:
    with pytest.raises(BadSetting, match="--set"):
        parse_settings((pair,))


def test_the_connection_is_not_taken_from_the_command_line_and_not_repeated() -> None:
    result = CliRunner().invoke(program, ["--set", "url=postgresql://u:hunter2@h/m", "show", "tables"])
    assert result.exit_code == 2
    assert "COMPACTOR_METASTORE_URL" in result.stderr
    assert "hunter2" not in result.output


@pytest.mark.parametrize(
    "arguments", [["nonsense"], ["show", "nonsense"], ["explain"], ["compact", "t", "--type", "x"]]
)
def test_usage_ends_with_2(arguments: list[str]) -> None:
    assert CliRunner().invoke(program, arguments).exit_code == 2


def test_an_unknown_setting_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COMPACTOR_METASTORE_URL", "sqlite:////nowhere/at/all.db")
    result = CliRunner().invoke(program, ["--set", "hive.compactor.check.intervall=1s", "show", "settings"])
    assert result.exit_code == 2
    assert "hive.compactor.check.intervall" in result.stderr


def test_without_a_metastore_the_message_says_what_to_set(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    for name in ("COMPACTOR_METASTORE_URL", "COMPACTOR_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path_factory.mktemp("empty"))
    result = CliRunner().invoke(program, ["show", "tables"])
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1
    assert "COMPACTOR_METASTORE_URL" in result.stderr


def test_an_unreachable_database_is_reported_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COMPACTOR_METASTORE_URL", "sqlite:////nowhere/at/all.db")
    result = CliRunner().invoke(program, ["show", "tables"])
    assert result.exit_code == 1
    assert result.stderr.startswith("compactor: ")
    assert result.stderr.count("\n") == 1
    assert "/nowhere/at/all.db" in result.stderr


def test_a_database_of_another_kind_is_refused_without_its_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COMPACTOR_METASTORE_URL", "oracle://scott:tiger@db/orcl")
    result = CliRunner().invoke(program, ["show", "tables"])
    assert result.exit_code == 1
    assert "oracle" in result.stderr
    assert "tiger" not in result.output

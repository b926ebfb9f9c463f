from __future__ import annotations

import json
from pathlib import Path

import pyorc
import pytest
from click.testing import CliRunner

from compactor.base.errors import BadFile, NotFound, UnnamedPlace
from compactor.cli.context import FAILED, CliContext
from compactor.cli.dump import describe_tail, dump
from compactor.orc.format.tail import read_tail
from compactor.orc.io.source import BytesSource


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "000000_0"
    with (
        open(path, "wb") as out,
        pyorc.Writer(out, "struct<a:int,b:string>", compression=pyorc.CompressionKind.ZSTD) as w,
    ):
        w.writerows([(1, "é"), (2, None)])
        w.set_user_metadata(note=b"\xffx")
    return path


def test_rows_are_json_lines_without_escapes(file: Path) -> None:
    done = CliRunner().invoke(dump, [str(file)], obj=CliContext())
    assert [json.loads(line) for line in done.stdout.splitlines()] == [{"a": 1, "b": "é"}, {"a": 2, "b": None}]
    assert "é" in done.stdout


def test_metadata_is_that_of_the_tail(file: Path) -> None:
    output = json.loads(CliRunner().invoke(dump, [str(file), "--meta"], obj=CliContext()).stdout)
    assert (output["path"], output["length"], output["rows"]) == (str(file), file.stat().st_size, 2)
    assert (output["acid"], output["encrypted"], output["compression"]) == (False, False, "ZSTD")
    assert (output["file_version"], [stripe["rows"] for stripe in output["stripes"]]) == ("0.12", [2])
    assert output["user_metadata"] == {"note": "\ufffdx"}


def test_metadata_is_printed_as_json(file: Path) -> None:
    found = describe_tail(read_tail(BytesSource(file.read_bytes())))
    assert json.loads(json.dumps(found)) == found


def test_a_file_that_is_not_orc_is_refused(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("a,b\n1,2\n", "utf-8")
    done = CliRunner().invoke(dump, [str(tmp_path / "f")], obj=CliContext())
    assert isinstance(done.exception, BadFile)


def test_a_path_that_is_not_there_is_a_name_that_does_not_exist(file: Path) -> None:
    done = CliRunner().invoke(dump, [str(file), "missing"], obj=CliContext())
    assert isinstance(done.exception, NotFound)
    assert done.stdout == ""


def test_an_empty_path_is_not_the_current_directory(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(file.parent)
    assert CliRunner().invoke(dump, [""], obj=CliContext()).exit_code == 2
    assert CliRunner().invoke(dump, ["."], obj=CliContext()).stdout.startswith("==> ./000000_0 <==\n")


def test_rows_of_several_files_have_the_name_of_theirs_before_them(file: Path) -> None:
    file.with_name("000001_0").write_bytes(file.read_bytes())
    rows = ['{"a": 1, "b": "é"}', '{"a": 2, "b": null}']
    for given in ([file.parent], [file, file.with_name("000001_0")]):
        done = CliRunner().invoke(dump, [*map(str, given)], obj=CliContext())
        assert done.stdout.splitlines() == [f"==> {file} <==", *rows, f"==> {file.parent}/000001_0 <==", *rows]


def test_with_json_a_row_of_several_files_has_the_path_of_its_file(file: Path) -> None:
    done = CliRunner().invoke(dump, ["--json", str(file.parent)], obj=CliContext())
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert lines == [{"path": str(file), "row": {"a": 1, "b": "é"}}, {"path": str(file), "row": {"a": 2, "b": None}}]
    alone = CliRunner().invoke(dump, ["--json", str(file)], obj=CliContext())
    assert [json.loads(line) for line in alone.stdout.splitlines()] == [line["row"] for line in lines]


def test_metadata_of_several_files_is_one_list(file: Path) -> None:
    done = CliRunner().invoke(dump, ["--meta", str(file), str(file.parent)], obj=CliContext())
    assert [(each["path"], each["rows"]) for each in json.loads(done.stdout)] == [(str(file), 2)] * 2


@pytest.mark.parametrize("options", [[], ["--json"], ["--meta"]])
def test_a_bad_file_of_several_is_named_and_the_others_are_printed(file: Path, options: list[str]) -> None:
    file.with_name("000000_1").write_text("no ORC", "utf-8")
    done = CliRunner().invoke(dump, [*options, str(file.parent)], obj=CliContext())
    assert done.exit_code == FAILED
    assert done.stderr.startswith(f"compactor: file {file}"[:-1] + "1: ")
    assert "é" in done.stdout or json.loads(done.stdout)[0]["rows"] == 2


@pytest.mark.parametrize(
    "options",
    [
        ["-d"],
        ["-t"],
        ["-r", "1"],
        ["--column-type"],
        ["--hive", "--meta"],
        ["--hive", "-r", "a"],
        ["--hive", "-r", "-1"],
    ],
)
def test_options_that_say_nothing_together_are_refused(file: Path, options: list[str]) -> None:
    assert CliRunner().invoke(dump, [*options, str(file)], obj=CliContext()).exit_code == 2


def test_stores_are_those_of_the_configuration(tmp_path: Path) -> None:
    config = tmp_path / "compactor.toml"
    config.write_text('[storage.hdfs]\nauthorities = ["nn:8020"]\n', "utf-8")
    done = CliRunner().invoke(dump, ["hdfs://other:8020/t"], obj=CliContext(config=str(config)))
    assert isinstance(done.exception, UnnamedPlace)
    assert "hdfs://other:8020" in str(done.exception)


def test_a_file_that_describes_too_much_is_refused_unless_more_is_allowed(file: Path) -> None:
    few = CliContext(flags={"compactor.file.columns": "2", "url": "sqlite://"})
    done = CliRunner().invoke(dump, [str(file)], obj=few)
    assert isinstance(done.exception, BadFile)
    assert "compactor.file.columns" in str(done.exception)
    assert CliRunner().invoke(dump, [str(file)], obj=CliContext(flags={"compactor.file.columns": "3"})).exit_code == 0


def test_a_streaming_file_ends_where_its_writer_has_flushed_it(file: Path) -> None:
    side = file.with_name(f"{file.name}_flush_length")
    side.write_bytes(file.stat().st_size.to_bytes(8, "big"))
    whole = CliRunner().invoke(dump, [str(file)], obj=CliContext()).stdout
    with file.open("ab") as out:
        out.write(b"not flushed")
    assert CliRunner().invoke(dump, [str(file)], obj=CliContext()).stdout == whole
    side.write_bytes(b"")
    for options in ([], ["--meta"]):
        done = CliRunner().invoke(dump, [*options, str(file)], obj=CliContext())
        assert isinstance(done.exception, BadFile)
        assert "has not flushed anything yet" in str(done.exception)

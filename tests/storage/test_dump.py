"""``compactor dump`` of files and directories in every kind of store, which ``compactor.toml`` leads to."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from compactor.cli.context import USAGE, CliContext
from compactor.cli.program import program
from tests.storage.conftest import Place
from tests.support.downloads import ROOT
from tests.support.orcfiledump import FILES

DELTA = "delta_0000001_0000001_0000"
NAMES = ("bucket_00000_0", "bucket_00001_0", "bucket_00001_0_flush_length", "_orc_acid_version", "_x/bucket_00002_0")


@pytest.fixture
def config(place: Place, tmp_path: Path) -> Path:
    """The store's options as a site's file has them."""
    tables = json.loads(place.stores.options.text).items()
    lines = [
        f"[storage.{kind}]\n" + "".join(f"{k} = {json.dumps(v)}\n" for k, v in table.items()) for kind, table in tables
    ]
    (tmp_path / "compactor.toml").write_text("".join(lines), "utf-8")
    return tmp_path / "compactor.toml"


def dumped(config: Path, *arguments: str) -> Result:
    return CliRunner().invoke(program, ["--config", str(config), "dump", *arguments], obj=CliContext())


def test_a_delta_is_dumped_wherever_it_is(place: Place, config: Path) -> None:
    """A streaming writer's side file ends the second file where its writer has flushed it."""
    top = place.stores.resolve(place.location)
    content = (ROOT / FILES[0]).read_bytes()
    for name in NAMES:
        folder = f"{top}/{DELTA}/{name}".rpartition("/")[0]
        place.stores.make_directories(folder, like=top)
        side = len(content).to_bytes(8, "big")
        place.stores.write(f"{top}/{DELTA}/{name}", side if name.endswith("_length") else content)
    names = [f"{place.location}/{DELTA}/{name}" for name in NAMES[:2]]
    done = dumped(config, names[0])
    assert done.exit_code == 0, done.stderr
    rows = done.stdout
    assert json.loads(rows.splitlines()[0])["operation"] == 0

    expected = "".join(f"==> {name} <==\n{rows}" for name in names)
    assert dumped(config, place.location).stdout == expected
    done = dumped(config, "--hive", "-d", f"{place.location}/")
    assert done.exit_code == 0
    processed = [line for line in done.stderr.splitlines() if line.startswith("Processing data file ")]
    assert processed == [f"Processing data file {name} [length: {len(content)}]" for name in names]
    alone = [dumped(config, "--hive", "-d", name).stdout for name in names]
    assert done.stdout == "".join(alone)


def test_what_is_not_there_is_said(place: Place, config: Path) -> None:
    done = dumped(config, f"{place.location}/missing")
    assert (done.exit_code, done.stdout) == (USAGE, "")
    assert done.stderr.startswith(f"compactor: {place.location}/missing: there is nothing at ")

"""The command line from outside: a real embedded metastore, tables that Hive wrote, exit codes and JSON."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from compactor.cli.program import program
from compactor.metastore.catalog.embedded import NewTable
from compactor.metastore.metastore import Metastore
from demo.fixtures import register_fixture
from tests.support.expected import step
from tests.support.patience import PATIENCE

Compactor = Callable[..., Result]
DUE = "hive-4.1/f1_basic/s10_dml_over_base"


@pytest.fixture
def compactor(metastore_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Compactor:
    """Runs a command line against ``metastore``, from a directory without a compactor.toml."""
    for name in [n for n in os.environ if n.startswith("COMPACTOR_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("COMPACTOR_METASTORE_URL", metastore_url)
    monkeypatch.chdir(tmp_path)

    def invoke(*arguments: str) -> Result:
        return CliRunner().invoke(program, arguments, catch_exceptions=False)

    return invoke


def told(result: Result) -> Any:
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def digest(*roots: Path) -> dict[str, str]:
    """Returns name -> hash of everything below ``roots``; SQLite's lock files count by their presence only."""
    found = {}
    for root in roots:
        for path in sorted(root.rglob("*")) if root.is_dir() else [root]:
            found[str(path)] = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "directory"
    return found


def test_from_a_request_to_a_clean_table(compactor: Compactor, metastore: Metastore, warehouse: Path) -> None:
    register_fixture(metastore, step(DUE), warehouse)
    before = told(compactor("show", "tables", "--json"))
    (asked,) = told(compactor("compact", "default.f1_basic", "--json"))
    done = told(compactor("run", "worker", "--once", "--in-process", "--json"))
    assert [c["fate"] for c in done["compactions"]] == ["compacted"]
    # PROTOCOL 7.1: ids younger than this may still be on their way into TXNS, and nothing is cleaned before.
    settled = ("--set", "hive.txn.opentxn.timeout=0ms")
    cleaned = told(compactor(*settled, "run", "cleaner", "--once", "--json"))
    assert [c["compaction"] for c in cleaned["cleaned"]] == [asked["compaction"]]
    after = told(compactor("show", "tables", "--json"))
    assert (before[0]["directories"], after[0]["directories"]) == (5, 1)
    newest = told(compactor("show", "history", "default.f1_basic", "--json"))[0]
    assert (newest["compactionid"], newest["state"]) == (asked["compaction"], "succeeded")


def test_progress_is_one_line_for_each_entry(compactor: Compactor, metastore: Metastore, warehouse: Path) -> None:
    register_fixture(metastore, step("hive-4.1/f2_part/s1_dml"), warehouse)
    assert compactor("compact", "default.f2_part", "--partition", "p=x,q=1").exit_code == 0
    assert compactor("compact", "default.f2_part", "--partition", "p=y/q=2").exit_code == 0
    result = compactor("run", "worker", "--once", "--in-process")
    lines = result.stdout.splitlines()
    *entries, last = [line.split(":")[0] for line in lines]  # entries that go together end in any order
    assert (sorted(entries), last) == (["default.f2_part/p=x/q=1", "default.f2_part/p=y/q=2"], "worker")
    assert all("compacted" in line for line in lines[:2])


def test_passes_with_nothing_to_do_end_with_0(compactor: Compactor, metastore: Metastore) -> None:
    for role in ("initiator", "worker", "cleaner", "housekeeper"):
        result = compactor("run", role, "--once", *(["--in-process"] if role == "worker" else []))
        assert result.exit_code == 0, result.output


def test_compact_refuses_with_3(compactor: Compactor, metastore: Metastore, warehouse: Path) -> None:
    table = register_fixture(metastore, step(DUE), warehouse)
    metastore.embedded_catalog.create_table(NewTable("default", "plain", str(warehouse / "plain"), list(table.columns)))
    assert compactor("compact", "default.f1_basic").exit_code == 0
    again = compactor("compact", "default.f1_basic")
    assert again.exit_code == 3
    assert "Compaction is already scheduled with state='initiated'" in again.stderr
    assert compactor("compact", "default.plain").exit_code == 3
    assert compactor("compact", "default.nope").exit_code == 2
    assert compactor("--set", "compactor.mode=observe", "compact", "default.f1_basic").exit_code == 3
    assert compactor("compact", "default.f1_basic", "--property", "compactor.spark.jars=/x.jar").exit_code == 2


def test_waiting_ends_with_4_when_nobody_works(compactor: Compactor, metastore: Metastore, warehouse: Path) -> None:
    register_fixture(metastore, step(DUE), warehouse)
    result = compactor("compact", "default.f1_basic", "--wait", "--timeout", "0.3", "--json")
    assert result.exit_code == 4
    (asked,) = json.loads(result.stdout)
    assert isinstance(asked["compaction"], int)


def test_waiting_for_what_fails_ends_with_1(compactor: Compactor, metastore: Metastore, warehouse: Path) -> None:
    register_fixture(metastore, step(DUE), warehouse)
    for file in (warehouse / "f1_basic").rglob("bucket_0*"):
        file.write_bytes(b"not ORC at all")
    (asked,) = told(compactor("compact", "default.f1_basic", "--json"))
    worked = compactor("run", "worker", "--once", "--in-process")
    assert worked.exit_code == 1
    assert "ORC" in worked.stdout
    failed = told(compactor("show", "history", "--json"))[0]
    assert (failed["compactionid"], failed["state"]) == (asked["compaction"], "failed")
    assert "ORC" in failed["errormessage"]


def test_abort_and_resume(compactor: Compactor, metastore: Metastore, warehouse: Path) -> None:
    register_fixture(metastore, step(DUE), warehouse)
    (asked,) = told(compactor("compact", "default.f1_basic", "--json"))
    number = str(asked["compaction"])
    assert told(compactor("abort", "compaction", number, "--json")) == {
        "compactionid": asked["compaction"],
        "state": "aborted",
    }
    assert compactor("abort", "compaction", number).exit_code == 2
    (txn,) = metastore.transactions.open("ann", "h")
    assert compactor("abort", "transaction", str(txn)).exit_code == 0
    assert metastore.transactions.state(txn) == "a"
    again = compactor("abort", "transaction", str(txn))
    assert again.exit_code == 1
    assert "aborted already" in again.stderr
    assert compactor("--set", "compactor.mode=observe", "abort", "transaction", "1").exit_code == 1
    assert "neither paused by `compactor pause` nor failed" in compactor("resume", "default.f1_basic").stdout


def test_everything_that_shows_speaks_json(compactor: Compactor, metastore: Metastore, warehouse: Path) -> None:
    register_fixture(metastore, step(DUE), warehouse)
    compactor("run", "initiator", "--once")
    for what in ("tables", "compactions", "transactions", "locks", "blockers", "settings", "history", "decisions"):
        before, after = told(compactor("--json", "show", what)), told(compactor("show", what, "--json"))
        assert isinstance(before, list)
        assert before == after
    assert told(compactor("explain", "default.f1_basic", "--json"))["table"] == "default.f1_basic"
    assert told(compactor("plan", "default.f1_basic", "--json"))[0]["table"] == "default.f1_basic"
    assert told(compactor("metastore", "info", "--json"))["tables"] == 1
    assert told(compactor("doctor", "--json"))["failed"] == 0


def test_text_has_no_escapes_for_a_terminal(compactor: Compactor, metastore: Metastore, warehouse: Path) -> None:
    register_fixture(metastore, step(DUE), warehouse)
    for line in (["show", "tables"], ["show", "settings"], ["explain", "default.f1_basic"], ["doctor"]):
        assert "\x1b" not in compactor(*line).stdout


def test_the_dump_of_a_file(compactor: Compactor) -> None:
    file = next(step("hive-4.1/f1_basic/s1_insert").rglob("bucket_0*"))
    rows = [json.loads(line) for line in compactor("dump", str(file)).stdout.splitlines()]
    meta = told(compactor("dump", "--meta", str(file)))
    assert meta["rows"] == len(rows) > 0
    assert meta["user_metadata"]["hive.acid.version"] == "2"
    assert compactor("dump", __file__).exit_code == 1
    assert "is not ORC" in compactor("dump", __file__).stderr
    assert compactor("dump", "/nowhere").exit_code == 2


SHOWING = (
    ["doctor"],
    ["explain", "default.f1_basic"],
    ["explain", "default.f2_part", "--json"],
    ["show", "tables"],
    ["show", "compactions"],
    ["show", "transactions"],
    ["show", "locks"],
    ["show", "blockers"],
    ["show", "history"],
    ["plan", "default.f1_basic"],
    ["metastore", "info"],
)
PASSES = (
    ["run", "initiator", "--once"],
    ["run", "worker", "--once", "--in-process"],
    ["run", "cleaner", "--once"],
    ["run", "housekeeper", "--once"],
)


@pytest.mark.parametrize("lines", [SHOWING, *([line] for line in PASSES)], ids=["showing", *(p[1] for p in PASSES)])
def test_observing_changes_neither_database_nor_warehouse(
    lines: list[list[str]], compactor: Compactor, metastore: Metastore, warehouse: Path, tmp_path: Path
) -> None:
    """Promise 4: mode observe works on a database that can only be read, and leaves no trace."""
    register_fixture(metastore, step(DUE), warehouse)
    register_fixture(metastore, step("hive-4.1/f2_part/s1_dml"), warehouse)
    metastore.close()
    database = tmp_path / "metastore.db"
    database.chmod(0o444)
    before = digest(database, warehouse)
    observing = ("--set", "compactor.mode=observe")
    for line in lines:
        result = compactor(*observing, *line)
        assert result.exit_code == 0, (line, result.output)
        assert digest(database, warehouse) == before, line


def test_doctor_finds_a_database_that_is_away(compactor: Compactor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COMPACTOR_METASTORE_URL", "sqlite:////nowhere/at/all.db")
    result = compactor("doctor", "--json")
    assert result.exit_code == 1
    findings = json.loads(result.stdout)["findings"]
    assert findings[0]["level"] == "fail"
    assert "/nowhere/at/all.db" in findings[0]["found"]


def test_init_makes_a_metastore_once(compactor: Compactor, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("COMPACTOR_METASTORE_URL", f"sqlite:///{tmp_path / 'new.db'}")
    assert compactor("show", "tables").exit_code == 1
    made = told(compactor("metastore", "init", "--json"))
    assert made["schema_version"] == "4.0.0"
    assert told(compactor("metastore", "init", "--json")) == made
    assert told(compactor("show", "tables", "--json")) == []
    assert told(compactor("state", "upgrade", "--json"))["version"]


def test_a_batch_of_another_driver_is_0_and_untouched(
    compactor: Compactor, metastore: Metastore, warehouse: Path, metastore_url: str
) -> None:
    from compactor.state.state_database import open_state

    register_fixture(metastore, step(DUE), warehouse)
    (asked,) = told(compactor("compact", "default.f1_basic", "--json"))
    state = open_state(metastore_url)
    batch = state.batches.plan("default", None, None, [asked["compaction"]], {})
    state.batches.register(batch, "somebody else", 60_000)
    before = digest(warehouse)
    result = compactor("run", "worker", "--batch", str(batch), "--in-process")
    assert result.exit_code == 0
    assert "another driver" in result.stdout
    assert digest(warehouse) == before
    assert metastore.entries.get(asked["compaction"]).state.label == "initiated"


@pytest.mark.parametrize("role", ["initiator", "cleaner", "housekeeper", "worker"])
def test_a_role_that_runs_on_ends_by_sigterm(role: str, compactor: Compactor, metastore: Metastore) -> None:
    code = "from compactor.cli import main; main()"
    line = [sys.executable, "-c", code, "run", role, *(["--in-process"] if role == "worker" else [])]
    process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(os.environ))
    try:
        assert process.stdout is not None
        first = process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
    assert process.returncode == 0, err
    assert "Traceback" not in err
    assert first.startswith(f"{role}: ")
    assert "Traceback" not in out


def test_a_lingering_worker_takes_what_comes_and_ends(
    compactor: Compactor, metastore: Metastore, warehouse: Path
) -> None:
    register_fixture(metastore, step(DUE), warehouse)
    assert compactor("compact", "default.f1_basic").exit_code == 0
    result = compactor("run", "worker", "--in-process", "--linger", "0.1")
    assert result.exit_code == 0
    assert "worker: 1 entry, 0 failed" in result.stdout


def stand_in(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Lets ``submit`` find ``script`` as spark-submit."""
    program = folder / "spark" / "bin" / "spark-submit"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("SPARK_HOME", str(folder / "spark"))


@pytest.mark.parametrize(("code", "exit_code"), [(0, 0), (3, 1)])
def test_submit_runs_a_batch_for_each_pool_and_reports_their_ends(
    code: int,
    exit_code: int,
    compactor: Compactor,
    metastore: Metastore,
    warehouse: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    register_fixture(metastore, step("hive-4.1/f2_part/s1_dml"), warehouse)
    assert compactor("compact", "default.f2_part", "--partition", "p=x,q=1").exit_code == 0
    assert compactor("compact", "default.f2_part", "--partition", "p=y,q=2", "--pool", "nightly").exit_code == 0
    works = f"exec {sys.executable} -c 'from compactor.cli import main; main()' run worker --in-process --batch $batch"
    ends = works if code == 0 else f"exit {code}"
    stand_in(tmp_path, monkeypatch, f'echo "$@" >> {tmp_path}/lines\nfor batch; do :; done\n{ends}')
    result = compactor("submit", "--json")
    assert result.exit_code == exit_code
    batches = json.loads(result.stdout)
    assert [(b["pool"], b["entries"], b["exit_code"]) for b in batches] == [(None, 1, code), ("nightly", 1, code)]
    lines = (tmp_path / "lines").read_text().splitlines()
    assert [line.split("--batch ")[1] for line in lines] == [str(b["batch"]) for b in batches]
    again = compactor("submit")
    assert again.exit_code == exit_code
    wanted = "nothing to do" if code == 0 else "submit: 2 batches, 2 failed"  # what failed was given back at once
    assert wanted in again.stdout


def test_a_submit_that_did_nothing_has_failed_whatever_it_says(
    compactor: Compactor, metastore: Metastore, warehouse: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """YARN says SUCCEEDED of a second attempt that found its batch taken: the rows count, not the exit code."""
    register_fixture(metastore, step(DUE), warehouse)
    assert compactor("compact", "default.f1_basic").exit_code == 0
    stand_in(tmp_path, monkeypatch, "")
    result = compactor("submit", "--json")
    assert result.exit_code == 1
    (batch,) = json.loads(result.stdout)
    assert (batch["exit_code"], batch["state"]) == (0, "given back")


def test_spark_keys_of_a_flag_reach_the_application(
    compactor: Compactor, metastore: Metastore, warehouse: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    register_fixture(metastore, step(DUE), warehouse)
    assert compactor("compact", "default.f1_basic").exit_code == 0
    stand_in(tmp_path, monkeypatch, f'echo "$@" >> {tmp_path}/lines')
    compactor("--set", "compactor.spark.executor.memory=700m", "submit", "--json")
    (line,) = (tmp_path / "lines").read_text().splitlines()
    assert "--conf spark.executor.memory=700m" in line

"""``docs/first-hour.md`` and ``docs/migration.md``: their commands, in their order, beside a metastore with a pilot.

Commands of ours run in this process, and so does the DAG that one of Airflow's triggers; its other ones are read by
Airflow's own parser. The worker's DAG has tests of its own: a pass in this process stands for it here.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from compactor.cli.program import program
from compactor.compaction.states import State
from compactor.metastore.metastore import open_metastore
from demo.demo_folder import DemoPaths
from tests.support.tables import insert, make_table, rows_of
from tests.support.watching import files_below, rows_about

pytestmark = pytest.mark.whole

DOCUMENTS = Path(__file__).resolve().parents[3] / "docs"
DUE = range(12)  #: more deltas than the threshold


def blocks(document: str) -> Iterator[tuple[str, str]]:
    """Language and text of each block of code, in order."""
    text = (DOCUMENTS / document).read_text("utf-8")
    yield from re.findall(r"^```(\w+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


@pytest.fixture
def pilot(place: DemoPaths) -> DemoPaths:
    """Three tables that are due, two of them in the pilot's database."""
    with place.site() as site:
        for database, name in (("default", "other"), ("pilot", "sales"), ("pilot", "returns")):
            folder = place.warehouse / database
            folder.mkdir(exist_ok=True)
            table = make_table(site, folder, name, database=database)
            for number in DUE:
                insert(site, table, [number])
    return place


class Hour:
    """The person at the keyboard."""

    def __init__(self, place: DemoPaths, run_dag: Callable[..., Any]) -> None:
        self._place = place
        self._run_dag = run_dag
        self.said: dict[str, str] = {}  #: what each command of ours printed

    def toml(self, text: str) -> None:
        """``compactor.toml``, with this metastore's places in it; a further table is added."""
        config = self._place.config
        if not text.startswith("[metastore.default]"):
            text = f"{config.read_text('utf-8')}\n{text}"
        text = text.replace('hive_conf = "/etc/hive/conf"', f'url = "{self._place.url}"')
        text = text.replace("postgresql+psycopg://compactor@db/compactor", f"sqlite:///{self._place.folder}/state.db")
        config.write_text(text.replace("/var/lib/compactor", str(self._place.folder)), "utf-8")

    def ini(self, text: str) -> None:
        """Airflow's section."""
        from compactor.airflow.options import OPTIONS

        keys = [line.partition(" = ")[0] for line in text.splitlines()[1:]]
        assert set(keys) <= set(OPTIONS)

    def console(self, text: str) -> None:
        """One command after the other."""
        for line in re.findall(r"^\$ (.*)$", text, re.MULTILINE):
            match shlex.split(line.replace("DB.TABLE", "pilot.sales"), comments=True):
                case ["compactor", *arguments]:
                    done = CliRunner().invoke(program, arguments, catch_exceptions=False)
                    assert done.exit_code == 0, f"{line}\n{done.output}"
                    self.said[line] = done.output
                case ["airflow", *arguments]:
                    self._airflow(arguments)
                case [command, *_]:
                    assert command in ("pip", "export")

    def _airflow(self, arguments: list[str]) -> None:
        from airflow.cli.cli_parser import get_parser

        given = get_parser().parse_args(arguments)
        if arguments[1] == "trigger":
            run = self._run_dag(given.dag_id, **json.loads(given.conf))
            assert run.state == "success"
            CliRunner().invoke(program, ["run", "worker", "--once", "--in-process"], catch_exceptions=False)

    def sql(self, text: str) -> None:
        """A property of a database, as Hive's statement sets it."""
        database, key, value = re.findall(r"ALTER DATABASE (\w+) SET DBPROPERTIES \('(\S+)' = '(\w+)'\)", text)[0]
        with closing(open_metastore("default", self._place.url)) as metastore:  # Hive's session, whatever our mode is
            metastore.embedded_catalog.set_database_parameter(database, key, value)


@pytest.fixture
def _alone(pilot: DemoPaths, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing but the pilot's ``compactor.toml`` says what to do."""
    for name in [name for name in os.environ if name.startswith("COMPACTOR_") and "TEST" not in name]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("COMPACTOR_CONFIG", str(pilot.config))


@pytest.mark.usefixtures("_alone")
def test_every_command_of_the_first_hour(pilot: DemoPaths, run_dag: Callable[..., Any]) -> None:
    with pilot.site() as site:
        tables = [site.metastore.catalog.table(*name) for name in (("pilot", "sales"), ("pilot", "returns"))]
        before = [rows_of(site, table) for table in tables]
        others = site.metastore.database.path, pilot.warehouse / "default"
    closed = rows_about(others[0], "default"), files_below(others[1])
    hour = Hour(pilot, run_dag)
    for language, text in blocks("first-hour.md"):
        getattr(hour, language)(text)
    said = hour.said
    assert (rows_about(others[0], "default"), files_below(others[1])) == closed
    assert "these may be written to: pilot (compact)" in said["compactor doctor"]
    assert "0 enqueued" in said["compactor run initiator --once"]
    assert "mode compact" in said["compactor explain pilot.sales"]
    assert "12 -> 1 directories" in said["compactor explain pilot.sales"]
    assert "mode observe" in said["compactor explain default.other"]
    with pilot.site() as site:
        assert [rows_of(site, table) for table in tables] == before
        ended = {(e.entity.table, e.state) for e in site.metastore.entries.queue()}
    assert ended == {("sales", State.READY_FOR_CLEANING), ("returns", State.READY_FOR_CLEANING)}


@pytest.mark.usefixtures("_alone")
def test_every_command_of_the_migration(pilot: DemoPaths, run_dag: Callable[..., Any]) -> None:
    """Each stage is what it says, and the pilot's stage leaves every other database as it is."""
    with pilot.site() as site:
        tables = [site.metastore.catalog.table(*name) for name in (("pilot", "sales"), ("pilot", "returns"))]
        before = [rows_of(site, table) for table in tables]
        database = site.metastore.database.path
    closed = rows_about(database, "default"), files_below(pilot.warehouse / "default")
    untouched = rows_about(database, "pilot"), files_below(pilot.warehouse / "pilot")
    hour = Hour(pilot, run_dag)
    (watch, look, property, opened, work) = blocks("migration.md")
    hour.toml(watch[1])
    hour.console(look[1])
    assert (rows_about(database, "pilot"), files_below(pilot.warehouse / "pilot")) == untouched
    hour.sql(property[1])
    hour.toml(opened[1].replace("[metastore.default]\n", f'[metastore.default]\nurl = "{pilot.url}"\n'))
    hour.console("$ compactor run initiator --once\n")  # the DAG that is on since the first stage
    hour.console(work[1].replace("pilot.t", "pilot.sales"))
    assert "worker: 2 entries, 0 failed" in hour.said["compactor run worker --pool compactor --once"]
    assert (rows_about(database, "default"), files_below(pilot.warehouse / "default")) == closed
    with pilot.site() as site:
        assert [rows_of(site, table) for table in tables] == before
        ended = {(e.entity.table, e.pool, e.state) for e in site.metastore.entries.queue()}
    assert ended == {(name, "compactor", State.READY_FOR_CLEANING) for name in ("sales", "returns")}

"""The commands of the documents for databases, run as they stand there."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy.engine import make_url

from compactor.database import privileges
from compactor.doctor.metastore_checks import check_rights
from compactor.metastore.metastore import open_metastore
from compactor.settings.precedence import Settings
from compactor.site.finding import Level
from compactor.site.site import Site
from compactor.state.state_database import open_state
from compactor.state.state_tables import metadata
from compactor.state.state_upgrade import init
from compactor.storage.local import LocalStorage
from tests.support import servers
from tests.support.downloads import ROOT
from tests.support.places import PASSWORD
from tests.support.server_programs import debian_program
from tests.support.tables import with_settings

#: Options with which MySQL writes GTIDs, as a server with replicas does.
_GTIDS = ("--gtid-mode=ON", "--enforce-gtid-consistency=ON", "--log-bin=binlog")
#: In the order in which the documents name them, with the programs of their blocks. The first server of a kind is the
#: machine's own.
_PROGRAMS = {"postgresql": (), "mysql-9.7": ("mysql", "mysqldump"), "mysql": ("mariadb", "mariadb-dump")}


@pytest.fixture(params=_PROGRAMS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def documented(name: str) -> Iterator[servers.Server]:
    """A server with an empty database ``metastore``."""
    with servers.start(name, *(_GTIDS if name == "mysql-9.7" else ())) as server:
        yield server


@pytest.fixture
def run(name: str, documented: servers.Server, tmp_path: Path) -> Callable[[str], str]:
    """Runs lines of a document in a shell whose database programs know the server."""
    (tmp_path / "bin").mkdir()
    for program in _PROGRAMS[name]:
        real = debian_program("mysql", program) if name == "mysql-9.7" else (f"/usr/bin/{program}",)
        command = shlex.join([*real, "--no-defaults", f"--socket={documented.folder / 's'}", "-u", "root"])
        wrapper = tmp_path / "bin" / program
        wrapper.write_text(f'#!/bin/sh\nexec {command} "$@"\n', "utf-8")
        wrapper.chmod(0o755)
    url = make_url(documented.url.format(name="metastore")).set(drivername="postgresql").render_as_string()

    def run(lines: str) -> str:
        path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", lines.replace("postgresql://…", shlex.quote(url))],
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path,
            env=os.environ | {"PATH": path},
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def blocks(document: str, after: str, language: str) -> list[str]:
    """Returns the blocks of code after a line of a document, without their indentation."""
    text = (ROOT / "docs" / document).read_text("utf-8").partition(after)[2]
    assert text, f"{document} no longer has {after!r}"
    found = re.findall(rf"^( *)```{language}\n(.*?)^ *```", text, re.M | re.S)
    return ["\n".join(line.removeprefix(indent) for line in block.splitlines()) for indent, block in found]


def test_a_copy_of_our_state_is_restored(name: str, documented: servers.Server, run: Callable[[str], str]) -> None:
    url = documented.make("metastore", servers.hive_schema(documented.kind, "4.0.0"))
    state = init(url)
    with state.database.write() as conn:
        conn.execute(metadata.tables["COMPACTOR_PROGRESS"].insert().values(**_PROGRESS))
    state.close()
    run(blocks("upgrading.md", "Copy our own state:", "bash")[_copy_index(name)])
    with (again := open_state(url)).database.write() as conn:
        conn.execute(metadata.tables["COMPACTOR_PROGRESS"].update().values(UNITS=99))
    again.close()
    run(blocks("upgrading.md", "restore the copy, which replaces", "bash")[_copy_index(name)])
    with (restored := open_state(url)).database.read() as conn:
        assert conn.execute(metadata.tables["COMPACTOR_PROGRESS"].select()).mappings().one() == _PROGRESS
    restored.close()
    open_metastore("default", url).close()


_PROGRESS = {
    "METASTORE": "default",
    "ENTRY_ID": 1,
    "UNITS": 2,
    "UNITS_DONE": 1,
    "BYTES": 3,
    "BYTES_DONE": 1,
    "SPENT_MS": 5,
    "AT": 6,
}


def _copy_index(name: str) -> int:
    return list(_PROGRAMS).index(name)


def test_the_grants_are_enough(name: str, documented: servers.Server, run: Callable[[str], str]) -> None:
    """Those of the metastore's rights that every mode needs, and of our own state."""
    url = documented.make("metastore", servers.hive_schema(documented.kind, "4.0.0"))
    is_postgres = documented.kind == "postgresql"
    documented.sql(
        f"CREATE ROLE compactor LOGIN PASSWORD '{PASSWORD}'; GRANT SELECT ON ALL TABLES IN SCHEMA public TO compactor;"
        if is_postgres
        else f"CREATE USER compactor@'%' IDENTIFIED BY '{PASSWORD}';",
        "metastore",
    )
    if is_postgres:
        documented.sql(blocks("production.md", "The database user needs these rights", "sql")[0], "metastore")
    else:
        grants = blocks("production.md", "The database user needs these rights", "bash")[0]
        run(f"{grants.replace('mysql --force', f'{_PROGRAMS[name][0]} --force')} || true")
        own = blocks("production.md", "give our state a database of its own", "sql")[0]
        documented.sql(own, "metastore")
    as_user = make_url(url).set(username="compactor", password=PASSWORD)
    metastore = open_metastore("default", as_user.render_as_string(hide_password=False))
    assert privileges.missing(metastore.database, metastore.dialect.transaction_tables) == ()
    site = with_settings(Site.here("default", metastore, None, LocalStorage(), Settings.of()))
    findings = {finding.subject: finding.level for finding in check_rights(site)}
    assert findings["privileges"] is Level.OK
    metastore.close()
    if not is_postgres:
        init(as_user.set(database="compactor").render_as_string(hide_password=False)).close()

"""The demo's folder, which the demo may wipe: its metastore, warehouse and Airflow."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from compactor.base.errors import Refused
from compactor.database.engine import open_database
from compactor.metastore.schema import create
from compactor.site.deployment import configure, open_site
from compactor.site.site import Site
from compactor.state.state_upgrade import upgrade

_MARK = ".compactor-demo"
_CONFIG = """\
[metastore.default]
url = "{url}"
warehouse = "{warehouse}"
mode = "clean"

[metastore.default.settings]
"compactor.forget.grace" = "0s"  # every transaction that the demo shows as aborted did abort
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoPaths:
    """Paths of one demo below ``folder``."""

    folder: Path

    @property
    def warehouse(self) -> Path:
        return self.folder / "warehouse"

    @property
    def url(self) -> str:
        return f"sqlite:///{self.folder / 'metastore.db'}"

    @property
    def config(self) -> Path:
        return self.folder / "compactor.toml"

    @property
    def airflow(self) -> Path:
        """AIRFLOW_HOME."""
        return self.folder / "airflow"

    @property
    def report(self) -> Path:
        return self.folder / "report.json"

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Locks the folder until the block ends.

        Raises:
            Refused: another demo is using it.
        """
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        path = self.folder.parent / f"{self.folder.name}.lock"
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600), "a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise Refused(f"{self.folder} is used by another running demo; stop that demo first") from None
            yield

    def make(self) -> None:
        """Creates the folder with an embedded metastore in it; removes the files of an earlier demo.

        Raises:
            Refused: the folder contains files that no demo made.
        """
        if self.folder.exists() and any(self.folder.iterdir()) and not (self.folder / _MARK).exists():
            raise Refused(f"{self.folder} is not empty and no demo made it; choose another folder with --folder")
        shutil.rmtree(self.folder, ignore_errors=True)
        self.warehouse.mkdir(parents=True)
        (self.folder / _MARK).touch()
        self.write_config()
        database = open_database(self.url)
        create.create(database)
        upgrade(database)
        database.close()

    def write_config(self) -> None:
        """Writes the compactor.toml for this metastore."""
        self.config.write_text(_CONFIG.format(url=self.url, warehouse=self.warehouse), "utf-8")

    @contextmanager
    def site(self) -> Iterator[Site]:
        """Opens the demo's metastore, ignoring the environment."""
        with open_site(configure(config_path=str(self.config), environment={})) as site:
            yield site

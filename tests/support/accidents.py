"""Accidents of file systems, and time that passes for transactions."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import delete, update

from compactor.batches.assembly import list_claimable_ids
from compactor.batches.driver import run_entries
from compactor.cleaner.cleaner import clean
from compactor.housekeeper.housekeeper import keep_house
from compactor.initiator.initiator import initiate
from compactor.metastore.schema.tables import TXN_COMPONENTS, TXNS
from compactor.rewrite.run.runner import InProcessRunner
from compactor.site.site import Site
from tests.support.passes import settle

_HALF_AN_HOUR = 1_800_000


@contextmanager
def renamed_away(path: Path) -> Iterator[None]:
    """Puts an empty directory in the place of ``path`` for a while."""
    away = path.with_name(f"{path.name}.away")
    path.rename(away)
    path.mkdir()
    yield
    path.rmdir()
    away.rename(path)


@contextmanager
def missing(path: Path) -> Iterator[None]:
    """Leaves nothing in the place of ``path`` for a while."""
    away = path.with_name(f"{path.name}.away")
    path.rename(away)
    yield
    away.rename(path)


@contextmanager
def covered(path: Path) -> Iterator[None]:
    """Mounts an empty file system over ``path`` for a while; needs ``can_mount``."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "covered", str(path)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", str(path)], check=True)


def can_mount() -> bool:
    """Returns true if this user may mount a file system."""
    return os.geteuid() == 0 and subprocess.run(["unshare", "--mount", "true"], check=False).returncode == 0


def age_transactions(site: Site) -> None:
    """Lets half an hour pass for every transaction that has ended."""
    older = {
        "TXN_STARTED": TXNS.c.TXN_STARTED - _HALF_AN_HOUR,
        "TXN_LAST_HEARTBEAT": TXNS.c.TXN_LAST_HEARTBEAT - _HALF_AN_HOUR,
    }
    with site.metastore.database.write() as conn:
        conn.execute(update(TXNS).where(TXNS.c.TXN_STATE != "o").values(**older))
    settle()


def forget_components(site: Site) -> None:
    """Deletes what Hive's TRUNCATE never writes, and its cleaner deletes too early."""
    with site.metastore.database.write() as conn:
        conn.execute(delete(TXN_COMPONENTS))


def end_a_transaction(site: Site) -> None:
    """Opens and commits a transaction: the newest one is never forgotten."""
    site.metastore.transactions.commit(site.metastore.transactions.open("ann", "h")[0])
    age_transactions(site)


def every_role(site: Site, times: int = 3) -> None:
    """Runs all roles, one after the other."""
    for _ in range(times):
        end_a_transaction(site)
        initiate(site)
        run_entries(site, list_claimable_ids(site), InProcessRunner())
        clean(site)
        keep_house(site)

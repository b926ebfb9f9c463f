"""One pass of each role over an embedded metastore, for separate processes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from compactor.batches.assembly import list_claimable_ids
from compactor.batches.driver import run_entries
from compactor.cleaner import cleaner as cleaning
from compactor.database.engine import open_database
from compactor.housekeeper import housekeeper as housekeeping
from compactor.initiator import initiator as initiating
from compactor.requests import abort as aborting
from compactor.rewrite.run.runner import InProcessRunner
from compactor.site import lost_workers as repairing
from compactor.site.deployment import configure, open_site
from compactor.site.site import Site
from tests.support import hive2
from tests.support.watching import Interrupted

_AT_ONCE = {"hive.txn.opentxn.timeout": "1ms", "compactor.forget.grace": "0s"}  #: nothing is too young


def die_at(role: Callable[[str], None], metastore_url: str, step: str) -> None:
    """Runs ``role``; ``steps.reach`` kills this process at ``step``."""
    os.environ["COMPACTOR_DIE_AT"] = step
    role(metastore_url)


def initiator(metastore_url: str) -> None:
    _with_site(metastore_url, initiating.initiate, {"hive.compactor.delta.num.threshold": "1"})


def worker(metastore_url: str) -> None:
    _with_site(metastore_url, lambda site: run_entries(site, list_claimable_ids(site), InProcessRunner()), {})


def cleaner(metastore_url: str) -> None:
    _with_site(metastore_url, _clean_until_done, _AT_ONCE)


def keeping_cleaner(metastore_url: str) -> None:
    """Runs a cleaner that keeps what it would remove for a week."""
    flags = {"compactor.quarantine": "7d"} | _AT_ONCE
    _with_site(metastore_url, _clean_until_done, flags)


def housekeeper(metastore_url: str) -> None:
    _with_site(metastore_url, housekeeping.keep_house, _AT_ONCE)


def cleaner_of_aborts(metastore_url: str) -> None:
    """Runs a cleaner for which one aborted transaction is enough."""
    flags = {"hive.compactor.abortedtxn.threshold": "0"} | _AT_ONCE
    _with_site(metastore_url, cleaning.clean, flags)


def repair(metastore_url: str) -> None:
    _with_site(metastore_url, repairing.repair, {})


def beside_hive_2(metastore_url: str) -> None:
    """Runs the major compactions that a Hive 2 needs before it is replaced."""
    hive2.compact(hive2.site_of(open_database(metastore_url)))


def abort(metastore_url: str) -> None:
    """Aborts a compaction that is being worked on."""
    _with_site(
        metastore_url,
        lambda site: [aborting.abort_compaction(site, e.id) for e in site.metastore.entries.working()],
        {},
    )


def slow_worker(metastore_url: str, signs: str) -> None:
    """Runs a worker that, once its units are done, creates the file ``begun`` in ``signs`` and waits for ``go``.

    The result is then in the file ``fate``.
    """

    def wait() -> None:
        (Path(signs) / "begun").touch()
        while not (Path(signs) / "go").exists():
            time.sleep(0.01)

    def work(site: Site) -> None:
        done = run_entries(site, list_claimable_ids(site), Interrupted(after=wait))
        (Path(signs) / "fate").write_text(",".join(outcome.result.name for outcome in done.outcomes))

    _with_site(metastore_url, work, {})


def _clean_until_done(site: Site) -> None:
    while site.metastore.entries.queue():
        cleaning.clean(site)


def _with_site(metastore_url: str, pass_: Callable[[Site], object], flags: dict[str, str]) -> None:
    given = {"compactor.mode": "clean"} | flags
    environment = {"COMPACTOR_METASTORE_URL": metastore_url}
    if "COMPACTOR_CONFIG" in os.environ:
        environment["COMPACTOR_CONFIG"] = os.environ["COMPACTOR_CONFIG"]
    configuration = configure(flags=given, environment=environment)
    with open_site(configuration) as site:
        pass_(site)


def configured(config: str, role: Callable[[str], None], metastore_url: str) -> None:
    """Runs ``role`` under the configuration file that names the tables' store."""
    os.environ["COMPACTOR_CONFIG"] = config
    role(metastore_url)

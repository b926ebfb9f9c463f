from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from compactor.base.errors import DatabaseUnavailable
from compactor.base.stop_signals import Stop
from compactor.cli.run import repeat
from compactor.metastore.metastore import Metastore
from compactor.site.site import Site
from tests.support.passes import compact, settle
from tests.support.tables import insert, make_table

Compactor = Callable[..., Result]


@pytest.mark.parametrize(
    ("role", "output"),
    [
        (("initiator",), "initiator: 0 considered, 0 enqueued\n"),
        (("cleaner",), "cleaner: 0 cleaned, 0 waiting, 0 ended, 0 failed\n"),
        (("housekeeper",), "housekeeper: nothing to do\n"),
        (("worker", "--in-process"), "worker: 0 entries, 0 failed\n"),
    ],
)
def test_a_pass_with_nothing_to_do(
    compactor: Compactor, metastore: Metastore, role: tuple[str, ...], output: str
) -> None:
    done = compactor("run", *role, "--once")
    assert (done.exit_code, done.stdout) == (0, output), done.output
    spoken = compactor("run", *role, "--once", "--json").stdout
    assert spoken.count("\n") == 1
    assert isinstance(json.loads(spoken), dict)


def test_people_are_shown_what_a_cleaning_left(compactor: Compactor, deployment: Site, warehouse: Path) -> None:
    table = make_table(deployment, warehouse)
    for value in (1, 2):
        insert(deployment, table, [value])
    compact(deployment)
    assert obsolete_directories(deployment) == 2
    settle()
    done = compactor("--set", "hive.txn.opentxn.timeout=1ms", "run", "cleaner", "--once")
    assert "cleaner: 1 cleaned, 0 waiting" in done.stdout
    assert obsolete_directories(deployment) == 0


def obsolete_directories(site: Site) -> int:
    """Returns how many obsolete directories people are shown of the only table that was looked at."""
    assert site.state is not None
    (seen,) = site.state.conditions.page(site.name, limit=9)
    assert seen.condition is not None
    return seen.condition.obsolete


def test_in_a_mode_below_clean_hive_does_its_own_housekeeping(compactor: Compactor, metastore: Metastore) -> None:
    done = compactor("--set", "compactor.mode=compact", "run", "housekeeper", "--once")
    assert done.stdout.startswith("housekeeper: nothing to do in a mode below clean")


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (("--in-process", "--master", "yarn"), "excludes --master"),
        (("--once", "--linger", "1"), "give one of them"),
        (("--batch", "0"), "--batch"),
        (("--verify", "never"), "--verify"),
        (("--linger", "-1"), "--linger"),
    ],
)
def test_contradictory_options_end_with_2(compactor: Compactor, options: tuple[str, ...], word: str) -> None:
    done = compactor("run", "worker", *options)
    assert (done.exit_code, word in done.stderr) == (2, True)


def test_a_lingering_worker_ends_without_requests(compactor: Compactor, metastore: Metastore) -> None:
    done = compactor("run", "worker", "--in-process", "--linger", "0")
    assert done.stdout.splitlines() == ["worker: waiting for requests", "worker: 0 entries, 0 failed"]


def test_an_unknown_batch_ends_with_2(compactor: Compactor, metastore: Metastore) -> None:
    done = compactor("run", "worker", "--in-process", "--batch", "7")
    assert (done.exit_code, "batch 7" in done.stderr) == (2, True)


def test_a_pool_that_nothing_is_known_of_is_named(compactor: Compactor, metastore: Metastore) -> None:
    done = compactor("run", "worker", "--in-process", "--once", "--pool", "defualt", "--pool", "default")
    assert (done.exit_code, done.stdout) == (0, "worker: 0 entries, 0 failed\n")
    assert done.stderr.count("pool ") == 1
    assert "pool 'defualt': it is not configured, and no compaction has it; did you mean default?" in done.stderr


def test_passes_follow_each_other_until_asked_to_stop() -> None:
    stop, passes = Stop(), []

    def one_pass() -> bool:
        passes.append(len(passes))
        if len(passes) == 3:
            stop.request()
        return len(passes) == 3

    assert repeat(stop, 0.001, one_pass) is True
    assert passes == [0, 1, 2]


def test_a_failed_pass_is_reported_and_the_next_one_follows(capsys: pytest.CaptureFixture[str]) -> None:
    stop, passes = Stop(), []

    def one_pass() -> bool:
        passes.append(1)
        if len(passes) == 1:
            raise DatabaseUnavailable("database sqlite:///x: away")
        stop.request()
        return True

    assert repeat(stop, 0.001, one_pass) is True
    assert "database sqlite:///x: away" in capsys.readouterr().err


def test_an_error_that_is_a_bug_ends_the_loop() -> None:
    def one_pass() -> bool:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        repeat(Stop(), 0.001, one_pass)

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from click.testing import Result

from compactor.metastore.store import Metastore

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


def test_in_a_mode_below_clean_hive_does_its_own_housekeeping(compactor: Compactor, metastore: Metastore) -> None:
    done = compactor("--set", "compactor.mode=compact", "run", "housekeeper", "--once")
    assert done.stdout.startswith("housekeeper: nothing is done in a mode below clean")


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (("--in-process", "--master", "yarn"), "--master has no meaning"),
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

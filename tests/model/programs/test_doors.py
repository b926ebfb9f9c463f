"""The same histories through each door against plain tables; `make test-all` runs 5,000 for each, and
few for Spark's, and prints their seeds."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest
from hypothesis import Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from compactor.site.site import Site
from tests.model.programs.doors import Door, PythonDoor, SqlDoor
from tests.model.programs.histories import Histories, World
from tests.support.sizes import WHOLE, sized

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_HISTORIES = int(os.environ.get("HISTORIES", sized(short=3, whole=5000)))
_HISTORIES_OF_SPARK = int(os.environ.get("HISTORIES", 10))  # each takes a minute
_STEPS = sized(short=6, whole=15)
_STEPS_OF_SPARK = 6

#: Sessions whose jobs have few rows: to compile stages or to start workers takes longer than to run them.
_FOR_FEW_ROWS = {
    "spark.python.daemon.module": "tests.support.preloaded_daemon",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.shuffle.partitions": "1",
}

#: Without these so many histories have tried too little.
_REACHED = {"committed", "interrupted", "killed", "restored", "rolled back", "waited"}
_MANY = 200


@pytest.mark.parametrize("door", [PythonDoor, SqlDoor])
def test_a_door_does_what_plain_tables_do(empty_metastore: Path, door: type[PythonDoor] | type[SqlDoor]) -> None:
    """PROTOCOL 13, 14: all types, conditions, definitions, transactions, and pairs of statements at each of their steps.

    HISTORIES is the number of runs, HISTORIES_SEED the seed of a run that is to be repeated.
    """
    _run(empty_metastore, door.__name__, door, _HISTORIES, _STEPS)
    if _HISTORIES >= _MANY:
        assert {what for what, times in Histories.seen.items() if times} >= _REACHED


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    from tests.support.spark_sessions import local_session

    with local_session(tmp_path_factory.mktemp("spark"), "local[1]", _FOR_FEW_ROWS) as session:
        yield session


@pytest.mark.whole
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_the_door_of_spark_does_what_plain_tables_do(empty_metastore: Path, spark: SparkSession) -> None:
    """PROTOCOL 13, 14: as above, with pairs of a statement of Python at each of its steps, and one of Spark."""
    from tests.model.programs.spark_door import SparkDoor

    door = partial(SparkDoor, spark=spark)
    _run(empty_metastore, SparkDoor.__name__, staticmethod(door), _HISTORIES_OF_SPARK, _STEPS_OF_SPARK)


def _run(empty_metastore: Path, name: str, door: Callable[[Site, Path], Door], histories: int, steps: int) -> None:
    number = int(os.environ.get("HISTORIES_SEED", random.randrange(2**32) if WHOLE else 0))
    print(f"HISTORIES_SEED={number}")
    Histories.seen.clear()
    chosen = settings(
        max_examples=histories,
        stateful_step_count=steps,
        derandomize=False,
        database=None,
        deadline=None,
        phases=(Phase.generate,) if os.environ.get("HISTORIES_SHRINK") == "0" else (Phase.generate, Phase.shrink),
    )
    with (
        TemporaryDirectory(dir=empty_metastore.parent) as folder,
        World.open(empty_metastore, Path(folder)) as world,
    ):
        machine = type(name, (Histories,), {"opened": world, "door_type": door})
        run_state_machine_as_test(seed(number)(machine), settings=chosen)
    print(dict(Histories.seen))

"""Routes of applications."""

from __future__ import annotations

from compactor.compaction.entry import Entity, Entry
from compactor.compaction.routing import Route, route
from compactor.compaction.states import CompactionType, State
from compactor.settings.precedence import Layer, Settings, with_request, with_table


def _entry(pool: str | None = None, run_as: str | None = None) -> Entry:
    entity = Entity(database="d", table="t")
    return Entry(id=1, entity=entity, state=State.INITIATED, type=CompactionType.MINOR, pool=pool, run_as=run_as)


def test_the_default_route() -> None:
    assert route(_entry(), Settings.of(), run_as=None) == Route()
    assert route(_entry(pool=""), Settings.of(), run_as=None).pool is None


def test_the_pool_comes_from_the_row_queue_and_conf_from_settings() -> None:
    settings = with_table(
        Settings.of([Layer(name="flag", values={"hive.compactor.job.queue": "site"})]),
        {"compactor.hive.compactor.job.queue": "etl", "compactor.spark.executor.memory": "8g"},
    )
    settings = with_request(settings, {"compactor.spark.driver.memory": "2g"})
    assert route(_entry(pool="night"), settings, run_as=None) == Route(
        pool="night",
        queue="etl",
        conf=(("spark.driver.memory", "2g"), ("spark.executor.memory", "8g")),
    )


def test_the_user_is_the_one_that_was_decided_whatever_the_row_says() -> None:
    """A user in the row records who compacted before a worker was lost; it is no wish."""
    for entry in (_entry(), _entry(run_as="ann")):
        assert route(entry, Settings.of(), run_as="hive").run_as == "hive"
        assert route(entry, Settings.of(), run_as=None).run_as is None


def test_equal_routes_are_equal_keys() -> None:
    one = with_table(Settings.of(), {"compactor.spark.executor.memory": "8g", "compactor.spark.driver.memory": "1g"})
    two = with_table(Settings.of(), {"compactor.spark.driver.memory": "1g", "compactor.spark.executor.memory": "8g"})
    assert len({route(_entry(), one, run_as=None), route(_entry(), two, run_as=None)}) == 1

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
    assert route(_entry(), Settings.of()) == Route()
    assert route(_entry(pool=""), Settings.of()).pool is None


def test_the_pool_comes_from_the_row_queue_and_conf_from_settings() -> None:
    settings = with_table(
        Settings.of([Layer(name="flag", values={"hive.compactor.job.queue": "site"})]),
        {"compactor.hive.compactor.job.queue": "etl", "compactor.spark.executor.memory": "8g"},
    )
    settings = with_request(settings, {"compactor.spark.driver.memory": "2g"})
    assert route(_entry(pool="night"), settings) == Route(
        pool="night",
        queue="etl",
        conf=(("spark.driver.memory", "2g"), ("spark.executor.memory", "8g")),
    )


def test_run_as_comes_from_the_row_then_the_site_then_the_owner() -> None:
    site = Settings.of([Layer(name="flag", values={"hive.compactor.run.as.user": "hive"})])
    owners = Settings.of([Layer(name="flag", values={"compactor.run.as.owner": "true"})])
    assert route(_entry(run_as="ann"), site, owner="bob").run_as == "ann"
    assert route(_entry(), site, owner="bob").run_as == "hive"
    assert route(_entry(run_as="ann"), owners, owner="bob").run_as == "ann"
    assert route(_entry(), owners, owner="bob").run_as == "bob"
    assert route(_entry(), owners).run_as is None


def test_nobody_is_impersonated_unless_the_site_says_so() -> None:
    """A user name in the row only records the owner of a worker's transaction; it does not ask to impersonate."""
    assert route(_entry(run_as="ann"), Settings.of(), owner="bob").run_as is None


def test_equal_routes_are_equal_keys() -> None:
    one = with_table(Settings.of(), {"compactor.spark.executor.memory": "8g", "compactor.spark.driver.memory": "1g"})
    two = with_table(Settings.of(), {"compactor.spark.driver.memory": "1g", "compactor.spark.executor.memory": "8g"})
    assert len({route(_entry(), one), route(_entry(), two)}) == 1

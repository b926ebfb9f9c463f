from __future__ import annotations

import pytest

from compactor.base.errors import BadSetting
from compactor.settings.table_properties import parameters_naming, parse_parameters, parse_request

NUM = "hive.compactor.delta.num.threshold"
QUEUE = "hive.compactor.job.queue"
ALLOWED = frozenset({"spark.executor.memory"})


def test_both_prefixes_name_a_setting_and_the_second_wins() -> None:
    given = {f"compactorthreshold.{NUM}": " 3 ", f"compactor.{NUM}": "2"}
    for parameters in (given, dict(reversed(given.items()))):
        assert parse_parameters(parameters, ALLOWED).values == {NUM: "3"}


def test_parameters_that_do_not_concern_compaction_are_skipped() -> None:
    said = parse_parameters({"transactional": "true", "orc.compress": "ZLIB"}, ALLOWED)
    assert (said.values, said.spark_conf, said.ignored) == ({}, {}, ())


def test_the_pool_has_its_plain_name() -> None:
    assert parse_parameters({"hive.compactor.worker.pool": "etl"}, ALLOWED).values == {
        "hive.compactor.worker.pool": "etl"
    }


@pytest.mark.parametrize("strongest", [0, 1, 2])
def test_hives_order_decides_among_the_names_of_the_queue(strongest: int) -> None:
    names = [f"compactor.{QUEUE}", "compactor.mapreduce.job.queuename", "compactor.mapred.job.queue.name"][strongest:]
    said = parse_parameters({name: name for name in names}, ALLOWED)
    assert said.values == {QUEUE: names[0]}
    assert [key for key, _ in said.ignored] == sorted(names[1:])


def test_spark_keys_are_taken_if_the_site_allows_them() -> None:
    said = parse_parameters({"compactor.spark.executor.memory": "8g", "compactor.spark.executor.cores": "4"}, ALLOWED)
    assert said.spark_conf == {"spark.executor.memory": "8g"}
    ((key, reason),) = said.ignored
    assert key == "compactor.spark.executor.cores"
    assert "compactor.allowed.spark.conf allows (spark.executor.memory)" in reason


@pytest.mark.parametrize(
    "key", ["spark.jars", "spark.driver.extraJavaOptions", "spark.executor.extraClassPath", "spark.submit.pyFiles"]
)
def test_keys_that_load_code_are_never_taken_even_if_allowed(key: str) -> None:
    said = parse_parameters({f"compactor.{key}": "x"}, frozenset({key}))
    assert said.spark_conf == {}
    assert "load code" in dict(said.ignored)[f"compactor.{key}"]


def test_a_table_cannot_change_a_setting_of_the_site() -> None:
    said = parse_parameters({"compactor.hive.txn.timeout": "1s"}, ALLOWED)
    assert said.values == {}
    assert "a setting of the site" in dict(said.ignored)["compactor.hive.txn.timeout"]


def test_a_bad_value_is_ignored_with_its_reason() -> None:
    said = parse_parameters({f"compactor.{NUM}": "many"}, ALLOWED)
    assert said.values == {}
    assert "a whole number" in dict(said.ignored)[f"compactor.{NUM}"]


def test_only_a_request_overrides_table_parameters() -> None:
    given = {"tblprops.orc.compress": "ZSTD"}
    assert parse_request(given, ALLOWED, strict=True).table_overrides == {"orc.compress": "ZSTD"}
    assert parse_parameters(given, ALLOWED).table_overrides == {}


@pytest.mark.parametrize(
    "key",
    [f"compactorthreshold.{NUM}x", "compactor.spark.jars", "compactor.hive.txn.timeout", "rubbish", "orc.compress"],
)
def test_a_strict_request_refuses_unknown_properties(key: str) -> None:
    with pytest.raises(BadSetting, match=f"property '{key}'"):
        parse_request({key: "1"}, ALLOWED, strict=True)
    assert [name for name, _ in parse_request({key: "1"}, ALLOWED, strict=False).ignored] == [key]


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("compactor.hive.compactor.max.num.detla", "compactor.hive.compactor.max.num.delta"),
        ("compactor.hive.compactor.delta.pct.treshold", "compactor.hive.compactor.delta.pct.threshold"),
    ],
)
def test_a_near_miss_of_a_setting_is_reported_as_misspelt(key: str, meant: str) -> None:
    """Properties meant for Hive's jobs are ignored, but a slip of the pen must not be."""
    with pytest.raises(BadSetting, match=f"did you mean {meant}"):
        parse_request({key: "2"}, ALLOWED, strict=True)
    assert meant in dict(parse_parameters({key: "2"}, ALLOWED).ignored)[key]


@pytest.mark.parametrize("key", ["compactor.mapreduce.map.java.opts", "compactor.tez.x", "compactor.hive.tez.y"])
def test_properties_for_hives_own_jobs_are_never_silently_ignored(key: str) -> None:
    assert "Hive's own compaction jobs" in dict(parse_request({key: "1"}, ALLOWED, strict=False).ignored)[key]
    with pytest.raises(BadSetting, match="Hive's own compaction jobs"):
        parse_request({key: "1"}, ALLOWED, strict=True)


def test_the_memory_of_a_map_task_is_that_of_an_executor() -> None:
    memory, own = "compactor.mapreduce.map.memory.mb", "compactor.spark.executor.memory"
    assert parse_parameters({memory: "2048"}, ALLOWED).spark_conf == {"spark.executor.memory": "2048m"}
    assert parse_parameters({own: "3g", memory: "2048"}, ALLOWED).spark_conf == {"spark.executor.memory": "3g"}
    assert memory in dict(parse_parameters({memory: "2048"}, frozenset()).ignored)
    with pytest.raises(BadSetting, match=memory):
        parse_request({memory: "2048 -XX:X"}, ALLOWED, strict=True)


@pytest.mark.parametrize(
    ("key", "text", "said"),
    [
        ("orc.compress", "LZO", "expected one of NONE, ZLIB, SNAPPY, LZ4, ZSTD"),
        ("orc.row.index.stride", "999", "1000 to"),
        ("orc.row.index.stride", "-5000", "1000 to"),
        ("orc.stripe.size", "1", "1048576 to"),
        ("orc.encrypt", "pii", "a compaction cannot change it"),
        ("comment", "x", "a compaction cannot change it"),
    ],
)
def test_table_properties_that_a_compaction_cannot_change_are_refused(key: str, text: str, said: str) -> None:
    with pytest.raises(BadSetting, match=f"property 'tblprops.{key}': .*{said}"):
        parse_request({f"tblprops.{key}": text}, ALLOWED, strict=True)
    of_hive = parse_request({f"tblprops.{key}": text}, ALLOWED, strict=False)
    assert (of_hive.table_overrides, list(dict(of_hive.ignored))) == ({}, [f"tblprops.{key}"])


FAILED = "hive.compactor.initiator.failed.compacts.threshold"


@pytest.mark.parametrize(("text", "kept"), [("1", True), ("100", True), ("0", False), ("101", False)])
def test_a_table_sets_its_failed_threshold_within_bounds(text: str, kept: bool) -> None:
    """A table cannot switch the rule off, and be tried for ever at the cost of all others."""
    said = parse_parameters({f"compactor.{FAILED}": text}, ALLOWED)
    assert said.values == ({FAILED: text} if kept else {})
    assert kept or "may set 1 to 100" in dict(said.ignored)[f"compactor.{FAILED}"]


@pytest.mark.parametrize(("text", "kept"), [("60min", True), ("59min", False), ("0", False)])
def test_bounds_of_durations_are_compared_as_times(text: str, kept: bool) -> None:
    retry = "hive.compactor.initiator.failed.retry.time"
    assert parse_parameters({f"compactor.{retry}": text}, ALLOWED).values == ({retry: text} if kept else {})


def test_the_parameters_that_name_a_setting() -> None:
    names = parameters_naming(FAILED)
    assert {f"compactor.{FAILED}", f"compactorthreshold.{FAILED}"} < names
    for name in names:
        assert parse_parameters({name: "7"}, ALLOWED).values == {FAILED: "7"}
    assert "compactor.history.retention.aborted" in parameters_naming("compactor.history.retention.aborted")

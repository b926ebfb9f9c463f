"""Precedence of sources, and the settings that tables and requests may change."""

from __future__ import annotations

import itertools

import pytest

from compactor.base.errors import BadSetting
from compactor.settings.output_class import OutputClass
from compactor.settings.precedence import (
    Layer,
    Settings,
    allowed_spark_keys,
    loosest,
    mode_of_database,
    with_off_peak,
    with_override,
    with_request,
    with_table,
    without_match,
)

NUM = "hive.compactor.delta.num.threshold"
SITE = ["flag", "environment", "compactor.toml", "metastore-site.xml", "hive-site.xml", "default"]


def _site(**values: str) -> Settings:
    return Settings.of([Layer(name="compactor.toml", values={k.replace("_", "."): v for k, v in values.items()})])


def test_the_source_of_higher_precedence_wins() -> None:
    """request > table > database > flag > environment > toml > metastore-site > hive-site > default."""
    for number in range(len(SITE)):
        layers = [Layer(name=name, values={NUM: str(i)}) for i, name in enumerate(SITE)][number:]
        for given in (layers, layers[::-1]):
            settings = Settings.of(given)
            assert (settings.integer(NUM), settings.source(NUM)) == (number, SITE[number])
    settings = Settings.of([Layer(name="flag", values={NUM: "1"})])
    settings = with_table(settings, {}, {f"compactor.{NUM}": "2"})
    assert (settings.integer(NUM), settings.source(NUM)) == (2, "database")
    settings = with_table(settings, {f"compactor.{NUM}": "3"}, {})
    assert (settings.integer(NUM), settings.source(NUM)) == (3, "table")
    settings = with_request(settings, {f"compactor.{NUM}": "4"})
    assert (settings.integer(NUM), settings.source(NUM)) == (4, "request")


def test_table_over_database_whatever_the_order_of_calls() -> None:
    settings = with_request(Settings.of(), {f"compactor.{NUM}": "4"})
    settings = with_table(settings, {f"compactor.{NUM}": "3"}, {f"compactor.{NUM}": "2"})
    assert settings.integer(NUM) == 4


def test_without_layers_all_values_are_defaults() -> None:
    settings = Settings.of()
    assert (settings.integer(NUM), settings.source(NUM)) == (10, "default")
    assert settings.ratio("hive.compactor.delta.pct.threshold") == 0.1
    assert settings.milliseconds("metastore.txn.timeout") == 300_000
    assert settings.boolean("hive.compactor.clean.aborts.using.cleaner") is True
    assert settings.text("hive.compactor.job.queue") == ""
    assert settings.integer("compactor.batch.bytes") == 50 * 2**30


def test_a_default_layer_replaces_the_catalogues() -> None:
    settings = Settings.of([Layer(name="default", values={"compactor.mode": "clean"})])
    assert (settings.mode, settings.source("compactor.mode")) == ("clean", "default")


def test_of_two_names_in_one_file_the_newer_wins() -> None:
    values = {"hive.txn.timeout": "100s", "metastore.txn.timeout": "200s"}
    for items in itertools.permutations(values.items()):
        settings = Settings.of([Layer(name="hive-site.xml", values=dict(items))])
        assert settings.milliseconds("hive.txn.timeout") == 200_000


def test_hive_site_may_have_unknown_keys() -> None:
    """Its other keys are ignored; bad values only matter when they are read, and empty ones count as absent."""
    values = {"hive.exec.scratchdir": "/tmp", NUM: "many", "hive.txn.timeout": "", "compactor.unheard": "of"}
    settings = Settings.of([Layer(name="hive-site.xml", values=values)])
    assert settings.milliseconds("hive.txn.timeout") == 300_000
    with pytest.raises(BadSetting, match=r"many.*from hive-site.xml"):
        settings.integer(NUM)


@pytest.mark.parametrize("layer", ["flag", "environment", "compactor.toml", "connection"])
@pytest.mark.parametrize("key", ["compactor.batch.byts", "hive.compactor.delta.num.treshold", "nonsense"])
def test_unknown_keys_are_refused_by_name(layer: str, key: str) -> None:
    with pytest.raises(BadSetting, match=f"{layer}: setting '{key}' is unknown"):
        Settings.of([Layer(name=layer, values={key: "1"})])


def test_a_bad_value_of_a_flag_is_refused_at_once() -> None:
    with pytest.raises(BadSetting, match=r"'x'.*from flag"):
        Settings.of([Layer(name="flag", values={NUM: "x"})])


@pytest.mark.parametrize("name", ["table", "request", "database", "nowhere"])
def test_layers_that_a_site_does_not_have(name: str) -> None:
    with pytest.raises(BadSetting, match=name):
        Settings.of([Layer(name=name, values={})])


def test_getters_are_typed() -> None:
    with pytest.raises(BadSetting, match="its unit is s"):
        Settings.of().integer("hive.txn.timeout")
    with pytest.raises(BadSetting, match="its unit is count"):
        Settings.of().milliseconds(NUM)
    with pytest.raises(BadSetting, match="is unknown"):
        Settings.of().text("nonsense")


def test_a_digest_is_of_what_is_in_force() -> None:
    site = Settings.of([Layer(name="flag", values={"compactor.mode": "clean"})])
    loose = Settings.of([Layer(name="flag", values={"compactor.mode": "observe"})])
    table = with_table(site, {"compactorthreshold.hive.compactor.delta.num.threshold": "7", "numRows": "9"})
    assert site.digest == with_table(site, {"numRows": "9"}).digest
    assert site.digest == with_table(site, {"compactor.mode": "clean"}).digest
    assert len({site.digest, loose.digest, table.digest}) == 3


def test_explain_shows_value_source_unit_and_effect() -> None:
    rows = {row.key: row for row in _site(hive_txn_timeout="5min").explain()}
    assert rows["hive.txn.timeout"][1:4] == ("5min", "compactor.toml", "s")
    assert rows[NUM].source == "default"
    assert rows["hive.mr.compactor.gather.stats"].effect.endswith("Not used by Compactor.")


@pytest.mark.parametrize(
    ("site", "database", "table", "request_", "mode"),
    [
        ("clean", None, None, None, "clean"),
        ("clean", "compact", None, None, "compact"),
        ("clean", "observe", "clean", None, "observe"),
        ("request", "clean", "clean", "clean", "request"),
        ("compact", None, "request", None, "request"),
        ("clean", None, None, "observe", "observe"),
    ],
)
def test_the_tightest_mode_wins(
    site: str, database: str | None, table: str | None, request_: str | None, mode: str
) -> None:
    """DESIGN: the tightest of metastore, database and table wins; nobody below the site loosens it."""

    def said(value: str | None) -> dict[str, str]:
        return {"compactor.mode": value} if value else {}

    settings = with_request(with_table(_site(compactor_mode=site), said(table), said(database)), said(request_))
    assert settings.mode == mode


def test_the_mode_is_observe_unless_the_site_sets_it() -> None:
    """Compactor starts by observing: no table can make it act."""
    assert with_table(Settings.of(), {"compactor.mode": "clean"}).mode == "observe"


def test_a_table_can_only_tighten_readers() -> None:
    site = _site(compactor_readers="visibility")
    assert with_table(site, {}).text("compactor.readers") == "visibility"
    assert with_table(site, {"compactor.readers": "any"}).text("compactor.readers") == "any"
    assert (
        with_table(_site(compactor_readers="any"), {"compactor.readers": "visibility"}).text("compactor.readers")
        == "any"
    )


def test_the_threshold_prefix_wins_over_the_plain_one() -> None:
    settings = with_table(Settings.of(), {f"compactorthreshold.{NUM}": "3", f"compactor.{NUM}": "7"})
    assert settings.integer(NUM) == 3


def test_unrelated_keys_are_skipped() -> None:
    settings = with_table(Settings.of(), {"transactional": "true", "orc.compress": "ZLIB", NUM: "3", "tblprops.x": "y"})
    assert settings.integer(NUM) == 10
    assert [place for place, _ in settings.ignored] == [f"table: {NUM}", "table: tblprops.x"]
    assert settings.table_overrides == {}


def test_pool_of_a_table_and_a_database() -> None:
    settings = with_table(Settings.of(), {}, {"hive.compactor.worker.pool": "night"})
    assert settings.text("hive.compactor.worker.pool") == "night"
    settings = with_table(Settings.of(), {"hive.compactor.worker.pool": "day"}, {"hive.compactor.worker.pool": "night"})
    assert settings.text("hive.compactor.worker.pool") == "day"


def test_old_queue_keys_of_hives_jobs() -> None:
    assert with_table(Settings.of(), {"compactor.mapred.job.queue.name": "b"}).text("hive.compactor.job.queue") == "b"
    both = {"compactor.mapred.job.queue.name": "b", "compactor.mapreduce.job.queuename": "a"}
    assert with_table(Settings.of(), both).text("hive.compactor.job.queue") == "a"
    three = {**both, "compactor.hive.compactor.job.queue": "c"}
    assert with_table(Settings.of(), three).text("hive.compactor.job.queue") == "c"


SPARK = "compactor.spark.executor.memory"


def test_only_allowed_spark_keys_are_taken() -> None:
    settings = with_table(Settings.of(), {SPARK: "8g"})
    assert settings.spark_conf == {"spark.executor.memory": "8g"}
    settings = with_request(settings, {SPARK: "9g", "compactor.spark.driver.memory": "2g"})
    assert settings.spark_conf == {"spark.executor.memory": "9g", "spark.driver.memory": "2g"}
    assert settings.ignored == ()


@pytest.mark.parametrize(
    "key",
    [
        "spark.jars",
        "spark.jars.packages",
        "spark.executor.extraJavaOptions",
        "spark.driver.defaultJavaOptions",
        "spark.driver.extraClassPath",
        "spark.submit.pyFiles",
        "spark.extraListeners",
        "spark.plugins",
        "spark.archives",
        "spark.sql.shuffle.partitions",
        "spark.yarn.queue",
    ],
)
def test_table_properties_are_not_trusted(key: str) -> None:
    """DESIGN 7: the right to ALTER TABLE loads no code: requests are refused, table properties ignored and reported."""
    settings = with_table(Settings.of(), {f"compactor.{key}": "x"}, {f"compactor.{key}": "x"})
    assert settings.spark_conf == {}
    assert [place for place, _ in settings.ignored] == [f"database: compactor.{key}", f"table: compactor.{key}"]
    with pytest.raises(BadSetting, match=f"'compactor.{key}': {key}"):
        with_request(Settings.of(), {f"compactor.{key}": "x"})


def test_code_is_never_loaded_even_when_the_site_lists_it() -> None:
    site = _site(compactor_allowed_spark_conf="spark.jars, spark.executor.instances")
    assert allowed_spark_keys(site) == {"spark.jars", "spark.executor.instances"}
    settings = with_table(site, {"compactor.spark.jars": "evil.jar", "compactor.spark.executor.instances": "7"})
    assert settings.spark_conf == {"spark.executor.instances": "7"}


def test_the_site_itself_may_set_any_spark_key() -> None:
    settings = Settings.of([Layer(name="compactor.toml", values={"compactor.spark.jars": "/opt/own.jar"})])
    assert settings.spark_conf == {"spark.jars": "/opt/own.jar"}
    assert with_table(settings, {"compactor.spark.jars": "evil.jar"}).spark_conf == {"spark.jars": "/opt/own.jar"}


@pytest.mark.parametrize(
    "key", ["compactor.mapreduce.map.java.opts", "compactor.tez.queue.name", "compactor.hive.exec.parallel"]
)
def test_properties_for_hives_own_jobs_are_ignored_and_reported(key: str) -> None:
    for settings in (with_table(Settings.of(), {key: "1"}), with_request(Settings.of(), {key: "1"}, strict=False)):
        ((place, reason),) = settings.ignored
        assert place.endswith(key)
        assert "Hive's own compaction jobs" in reason


@pytest.mark.parametrize(
    ("key", "text", "reason"),
    [
        ("compactor.hive.txn.timeout", "1s", "a setting of the site"),
        ("compactor.allowed.spark.conf", "spark.jars", "a setting of the site"),
        ("compactor.batch.bytes", "1", "a setting of the site"),
        (f"compactorthreshold.{NUM}", "many", "expected a whole number"),
        ("compactor.batch.byts", "1", "did you mean compactor.batch.bytes"),
        ("compactorthreshold.hive.compactor.delta.num.treshold", "1", "did you mean"),
    ],
)
def test_properties_that_a_table_cannot_set(key: str, text: str, reason: str) -> None:
    settings = with_table(Settings.of(), {key: text})
    assert settings.layers == ()
    ((place, why),) = settings.ignored
    assert place == f"table: {key}"
    assert reason in why
    with pytest.raises(BadSetting, match=reason):
        with_request(Settings.of(), {key: text})


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        ("TblProps.orc.compress", "counts in a request alone"),
        ("tblprops.orc.compress", "counts in a request alone"),
        (f"Compactor.{NUM}", f"case-sensitive; write compactor.{NUM}"),
        (f"COMPACTORTHRESHOLD.{NUM.upper()}", f"case-sensitive; write compactorthreshold.{NUM}"),
        ("Compactor.Mode", "case-sensitive; write compactor.mode"),
        ("compactor.no", "unknown"),
        ("compactors.mode", "unknown; settings are compactor.<setting>"),
        ("compactor_mode", "unknown; settings are compactor.<setting>"),
        (NUM, f"write compactor.{NUM}"),
    ],
)
def test_a_parameter_that_looks_like_a_setting_is_named(key: str, reason: str) -> None:
    for parameters, database, layer in (({key: "1"}, {}, "table"), ({}, {key: "1"}, "database")):
        settings = with_table(Settings.of(), parameters, database)
        assert settings.layers == ()
        ((place, why),) = settings.without_effect
        assert place == f"{layer}: {key}"
        assert reason in why


def test_other_parameters_are_nobodys_concern() -> None:
    others = {"transactional": "true", "orc.compress": "ZLIB", "numFiles": "3", "hive.compactor.worker.pool": "etl"}
    assert with_table(Settings.of(), others).without_effect == ()


def test_a_value_that_another_overrides_is_named() -> None:
    twice = {f"compactor.{NUM}": "3", f"compactorthreshold.{NUM}": "4"}
    settings = with_table(Settings.of(), twice)
    assert settings.integer(NUM) == 4
    assert settings.without_effect == (
        (f"table: compactor.{NUM}", f"compactorthreshold.{NUM}, which is set too, counts"),
    )
    assert with_request(Settings.of(), twice).integer(NUM) == 4  # a person may write both
    site = Settings.of([Layer(name="flag", values={NUM: "9"}), Layer(name="compactor.toml", values={NUM: "8"})])
    layered = with_table(site, {f"compactor.{NUM}": "3"}, {f"compactor.{NUM}": "5"})
    assert layered.without_effect == tuple(
        (f"{layer}: {NUM}", "the value of table counts") for layer in ("database", "flag", "compactor.toml")
    )
    loose = with_table(
        Settings.of([Layer(name="flag", values={"compactor.mode": "observe"})]), {"compactor.mode": "clean"}
    )
    assert loose.without_effect == (("table: compactor.mode", "the value of flag counts"),)


def test_a_default_that_another_value_overrides_is_not_named() -> None:
    """The default mode of an embedded metastore: nobody wrote it, so nobody has to correct it."""
    embedded = Layer(name="default", values={"compactor.mode": "clean"})
    settings = Settings.of([embedded, Layer(name="compactor.toml", values={"compactor.mode": "request"})])
    assert settings.raw("compactor.mode") == ("request", "compactor.toml")
    assert settings.without_effect == ()


def test_a_request_with_an_unknown_property_is_refused() -> None:
    with pytest.raises(BadSetting, match=r"'orc.compress'.*tblprops"):
        with_request(Settings.of(), {"orc.compress": "ZLIB"})


def test_bad_properties_of_requests_by_others_are_ignored() -> None:
    """A row that Hive wrote to the queue may hold anything; the worker reports what it ignores."""
    settings = with_request(
        Settings.of(), {"foo": "bar", "compactor.spark.jars": "x", f"compactor.{NUM}": "3"}, strict=False
    )
    assert settings.integer(NUM) == 3
    assert [place for place, _ in settings.ignored] == ["request: compactor.spark.jars", "request: foo"]


def test_table_properties_for_the_writer() -> None:
    settings = with_request(Settings.of(), {"tblprops.orc.compress": "snappy", f"compactor.{NUM}": "3"})
    assert settings.table_overrides == {"orc.compress": "snappy"}
    assert settings.output_class == OutputClass(compression="SNAPPY")
    assert Settings.of().output_class is None


def test_layers_are_not_modified() -> None:
    site = Settings.of()
    with_table(site, {SPARK: "8g", f"compactor.{NUM}": "3"})
    assert site == Settings.of()


def test_a_misspelt_restriction_is_the_tightest_one() -> None:
    """A user who writes ``compactor.mode=obsreve`` wanted less to happen, not everything the site allows."""
    site = Settings.of([Layer(name="flag", values={"compactor.mode": "clean"})])
    settings = with_table(site, {"compactor.mode": "obsreve"})
    assert settings.mode == "observe"
    ((place, reason),) = settings.ignored
    assert place == "table: compactor.mode"
    assert "obsreve" in reason
    assert "observe applies until then" in reason


def test_an_override_ranks_between_request_and_table() -> None:
    table = with_table(Settings.of(), {f"compactor.{NUM}": "3"}, {})
    ours = with_override(table, {NUM: "5"})
    assert (ours.integer(NUM), ours.source(NUM)) == (5, "override")
    assert with_request(ours, {f"compactor.{NUM}": "7"}).source(NUM) == "request"
    assert with_table(with_override(Settings.of(), {NUM: "5"}), {f"compactor.{NUM}": "3"}).source(NUM) == "override"


def test_an_override_may_set_no_more_than_a_table() -> None:
    assert with_override(_site(compactor_mode="observe"), {"compactor.mode": "clean"}).mode == "observe"
    assert with_override(_site(compactor_mode="clean"), {"compactor.mode": "request"}).mode == "request"
    for key, value in (("compactor.lock.wait", "1s"), (NUM, "many"), ("compactor.colour", "red")):
        with pytest.raises(BadSetting):
            with_override(Settings.of(), {key: value}, strict=True)
        assert [name for name, _ in with_override(Settings.of(), {key: value}).ignored] == [f"override: {key}"]


def test_off_peak_settings_rank_just_above_compactor_toml() -> None:
    night = {NUM: "2"}
    file, flag = (Settings.of([Layer(name=name, values={NUM: "1"})]) for name in ("compactor.toml", "flag"))
    assert (with_off_peak(file, night).integer(NUM), with_off_peak(file, night).source(NUM)) == (2, "off-peak hours")
    assert with_off_peak(flag, night).source(NUM) == "flag"
    assert with_off_peak(with_table(file, {f"compactor.{NUM}": "3"}), night).source(NUM) == "table"


MODES = {"pilot": "clean", "team_*": "compact", "team_secret*": "observe", "team_secret_lab": "request"}


@pytest.mark.parametrize(
    ("database", "mode"),
    [
        ("pilot", "clean"),
        ("PILOT", "clean"),
        ("pilot_2", None),
        ("team_a", "compact"),
        ("team_secret_b", "observe"),  # the tightest of two patterns
        ("team_secret_lab", "request"),  # the name itself
        ("default", None),
    ],
)
def test_a_database_has_the_mode_of_its_name_or_of_the_tightest_pattern(database: str, mode: str | None) -> None:
    assert mode_of_database(MODES, database) == mode


def test_names_and_patterns_that_no_database_has() -> None:
    assert without_match(MODES, ["default", "Pilot", "team_secret"]) == ["team_secret_lab"]
    assert without_match(MODES, []) == sorted(MODES)


def test_the_loosest_of_some_modes() -> None:
    assert loosest(["observe", "compact", "request"]) == "compact"


def site(mode: str | None = "observe", *, layer: str = "compactor.toml") -> Settings:
    return Settings.of([Layer(name=layer, values={} if mode is None else {"compactor.mode": mode})], MODES)


def test_a_database_that_is_not_named_has_the_mode_of_its_metastore() -> None:
    """So one that is created tomorrow is as closed as the others."""
    assert (site().mode, site().loosest_mode) == ("observe", "clean")
    assert site().of_database("created_tomorrow") == site()
    assert site(None).of_database("created_tomorrow").mode == "observe"


def test_a_named_database_has_its_own() -> None:
    pilot = site().of_database("pilot")
    assert (pilot.mode, pilot.source("compactor.mode")) == ("clean", "compactor.toml")
    assert site("clean").of_database("team_secret_x").mode == "observe"
    assert site("request").loosest_mode == "clean"


def test_properties_still_only_tighten() -> None:
    settings = site().of_database("pilot")
    assert with_table(settings, {"compactor.mode": "request"}).mode == "request"
    assert with_table(settings, {}, {"compactor.mode": "observe"}).mode == "observe"
    assert with_table(site().of_database("default"), {"compactor.mode": "clean"}, {"compactor.mode": "clean"}).mode == (
        "observe"
    )


@pytest.mark.parametrize("mode", ["observe", "clean"])
def test_a_flag_is_for_every_database(mode: str) -> None:
    """A ``--set compactor.mode=observe`` means this run, whatever the site's file opens."""
    settings = site(mode, layer="flag")
    assert {settings.of_database(name).mode for name in ("pilot", "team_a", "default")} == {mode}
    assert settings.loosest_mode == mode

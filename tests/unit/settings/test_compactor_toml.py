"""compactor.toml."""

from __future__ import annotations

import pytest

from compactor.base.errors import BadSetting
from compactor.settings.compactor_toml import MetastoreProfile, files_of_properties, parse_profile
from compactor.settings.precedence import Layer, Settings

FULL = """
[metastore.default]
url = "sqlite:////srv/metastore.db"
state_url = "sqlite:////srv/state.db"
hive_conf = "/etc/hive/conf"
warehouse = "/srv/warehouse"
mode = "compact"

[metastore.default.settings]
"hive.compactor.delta.num.threshold" = 20
hive.compactor.delta.pct.threshold = 0.5
"hive.compactor.delayed.cleanup.enabled" = true
"compactor.lock.wait" = "2min"
"compactor.spark.jars" = "/opt/own.jar"

[metastore.default.database_modes]
Pilot = "clean"
"team_*" = "compact"

[metastore.archive]
url = "sqlite:////srv/archive.db"
"""


def test_everything() -> None:
    profile = parse_profile(FULL)
    assert list(profile.metastores) == ["default", "archive"]
    default = profile.metastore("default")
    assert default == MetastoreProfile(
        name="default",
        url="sqlite:////srv/metastore.db",
        state_url="sqlite:////srv/state.db",
        hive_conf="/etc/hive/conf",
        warehouse="/srv/warehouse",
        mode="compact",
        settings={
            "hive.compactor.delta.num.threshold": "20",
            "hive.compactor.delta.pct.threshold": "0.5",
            "hive.compactor.delayed.cleanup.enabled": "true",
            "compactor.lock.wait": "2min",
            "compactor.spark.jars": "/opt/own.jar",
        },
        database_modes={"pilot": "clean", "team_*": "compact"},
    )
    settings = Settings.of([Layer(name="compactor.toml", values=default.values)])
    assert settings.integer("hive.compactor.delta.num.threshold") == 20
    assert settings.ratio("hive.compactor.delta.pct.threshold") == 0.5
    assert settings.boolean("hive.compactor.delayed.cleanup.enabled") is True
    assert settings.milliseconds("compactor.lock.wait") == 120_000
    assert settings.mode == "compact"
    assert settings.spark_conf == {"spark.jars": "/opt/own.jar"}
    assert profile.metastore("archive").values == {}


def test_an_empty_file_accepts_any_metastore() -> None:
    assert parse_profile("").metastore("default") == MetastoreProfile(name="default")


def test_unknown_metastore() -> None:
    with pytest.raises(BadSetting, match=r"'prod' is not in compactor.toml; it has default, archive"):
        parse_profile(FULL).metastore("prod")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[metastore.default", "not TOML"),
        ("[metastores.default]", "'metastores' is unknown at the top"),
        ("metastore = 1", r"expected \[metastore.NAME\]"),
        ("[metastore]\nurl = 'x'", r"write \[metastore.default\]"),
        ("[metastore.default]\nuri = 'x'", r"\[metastore.default\]: key 'uri' is unknown.*did you mean url"),
        ("[metastore.default]\nurl = 5", "url = 5; expected a text"),
        ("catalog = 'lake'", r"expected \[catalog.NAME\]"),
        ("[catalog]\nlake = 'x'", r"expected \[catalog.NAME\]"),
        ("[catalog.lake]\nuri = ['a']", r"catalog\.lake\.uri = \['a'\]; expected a text"),
        ("[metastore.default]\nmode = 'watch'", "one of observe"),
        ("[metastore.default]\nsettings = 1", "settings is a value"),
        ("[metastore.default]\ndatabase_modes = 'clean'", r"expected \[metastore.NAME.database_modes\]"),
        ("[metastore.default.database_modes]\npilot = 'cleen'", "one of observe"),
        ("[metastore.default.database_modes]\npilot = 3", "database_modes.pilot = 3; expected a mode"),
        ("[metastore.default.database_modes]\nPilot = 'clean'\npilot = 'observe'", "names pilot twice"),
        ("[metastore.default.database_modes]\n'pilot.t' = 'clean'", "'pilot.t' cannot be the name of a database"),
        ("[metastore.default.database_modes]\n'' = 'clean'", "'' cannot be the name of a database"),
        ("[metastore.default]\ndatabase_mode = {}", "did you mean database_modes"),
        (
            "[metastore.default.settings]\n'hive.txn.timeut' = 1",
            "'hive.txn.timeut' is unknown; did you mean hive.txn.timeout",
        ),
        ("[metastore.default.settings]\n'compactor.batch.bytes' = 'big'", "a size such as"),
        ("[metastore.default.settings]\n'compactor.batch.bytes' = [1]", "expected a text, a number"),
    ],
)
def test_a_refusal_names_the_key(text: str, reason: str) -> None:
    with pytest.raises(BadSetting, match=reason):
        parse_profile(text)


def test_properties_of_catalogs_are_texts_under_their_own_names() -> None:
    text = (
        "[catalog.lake]\ntype = 'rest'\ns3.region = 'eu'\n\"s3.endpoint\" = 'http://x'\ntoken_file = '/t'\nssl = true"
    )
    profile = parse_profile(text)
    assert profile.catalogs["lake"] == {
        "type": "rest",
        "s3.region": "eu",
        "s3.endpoint": "http://x",
        "token_file": "/t",
        "ssl": "true",
    }
    assert files_of_properties("lake", profile.catalogs["lake"]) == [("[catalog.lake] token_file", "/t")]


def test_storage_options_reach_the_client_unchanged() -> None:
    profile = parse_profile(
        '[storage.s3]\nendpoint_url = "http://minio:9000"\nsecret = "hush"\n'
        '[storage."hdfs://cluster"]\nurl = ["http://a:9870", "http://b:9870"]\n'
    )
    assert profile.storage["s3"]["endpoint_url"] == "http://minio:9000"
    assert profile.storage["hdfs://cluster"]["url"] == ["http://a:9870", "http://b:9870"]
    assert "hush" not in repr(profile)
    for wrong in ("storage = 1", "[storage]\ns3 = 1"):
        with pytest.raises(BadSetting, match=r"expected \[storage.KIND\]"):
            parse_profile(wrong)


def test_pools_of_a_metastore() -> None:
    text = '[metastore.west.pool.night]\nwindows = ["20:00-06:00"]\n[metastore.west.pool.etl]\nqueue = "q"\n'
    found = parse_profile(text).metastore("west").pools
    assert {name: dict(pool) for name, pool in found.items()} == {
        "night": {"windows": ["20:00-06:00"]},
        "etl": {"queue": "q"},
    }
    with pytest.raises(BadSetting, match=r"expected \[metastore\.NAME\.pool\.POOL\]"):
        parse_profile("[metastore.west]\npool = 7\n")

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import select

from compactor.base.errors import BadSetting, DatabaseUnavailable, Refused, UnnamedPlace, UnsafeDirectory
from compactor.base.ids import TxnId
from compactor.compaction.queue_entry import Entity
from compactor.metastore.metastore import Metastore
from compactor.metastore.schema.tables import MIN_HISTORY_LEVEL, VERSION, WRITE_SET
from compactor.rows.remote_source import open_source
from compactor.settings.file_limits import FileLimits
from compactor.site.deployment import OTHERS, configure, memory_of, open_deployment, open_site, open_stores
from compactor.site.mode import Mode, mode_of
from compactor.site.site import HISTORY_BY_WRITE_IDS
from compactor.storage.stores import Stores

URL = {"COMPACTOR_METASTORE_URL": "sqlite:////w/metastore.db"}
THRESHOLD = "hive.compactor.delta.num.threshold"


def toml(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


def test_opening_a_deployment_imports_no_pandas() -> None:
    """Each task of Airflow is a process that opens one; importing pandas alone takes longer than the rest."""
    program = "import compactor.site.deployment, compactor.worker.worker, sys; print('pandas' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_the_order_of_sources(tmp_path: Path) -> None:
    """flag > environment > compactor.toml > metastore-site.xml > hive-site.xml > default."""
    conf = tmp_path / "conf"
    conf.mkdir()
    given = "<configuration><property><name>{}</name><value>{}</value></property></configuration>"
    config = toml(tmp_path / "c.toml", f'[metastore.default]\nurl = "sqlite:////toml.db"\nhive_conf = "{conf}"\n')
    environment = {"COMPACTOR_CONFIG": config}
    assert configure(environment=environment).url == "sqlite:////toml.db"
    assert configure(environment={**environment, **URL}).url == "sqlite:////w/metastore.db"
    assert configure(environment={**environment, **URL}, flags={"url": "sqlite:////f.db"}).url == "sqlite:////f.db"

    assert configure(environment=environment).settings.raw(THRESHOLD) == ("10", "default")
    (conf / "hive-site.xml").write_text(given.format(THRESHOLD, 5))
    assert configure(environment=environment).settings.raw(THRESHOLD) == ("5", "hive-site.xml")
    (conf / "metastore-site.xml").write_text(given.format(THRESHOLD, 6))
    assert configure(environment=environment).settings.raw(THRESHOLD) == ("6", "metastore-site.xml")
    flagged = configure(environment=environment, flags={THRESHOLD: "8"}).settings
    assert flagged.raw(THRESHOLD) == ("8", "flag")


def test_an_embedded_metastore_defaults_to_clean_and_others_to_observe() -> None:
    """A foreign metastore is only observed unless configured otherwise."""
    assert mode_of(configure(environment=URL).settings) is Mode.CLEAN
    foreign = configure(environment={"COMPACTOR_METASTORE_URL": "postgresql://h/hive"})
    assert mode_of(foreign.settings) is Mode.OBSERVE
    assert (foreign.is_embedded, configure(environment=URL).is_embedded) == (False, True)
    assert mode_of(configure(environment=URL, flags={"compactor.mode": "observe"}).settings) is Mode.OBSERVE


def test_the_location_of_our_own_state() -> None:
    """Mode observe stores nothing in a foreign metastore."""
    assert configure(environment=URL).own_state_url == URL["COMPACTOR_METASTORE_URL"]
    assert configure(environment=URL, flags={"compactor.mode": "observe"}).own_state_url is None
    apart = {**URL, "COMPACTOR_STATE_URL": "sqlite:////s.db"}
    assert configure(environment=apart, flags={"compactor.mode": "observe"}).own_state_url == "sqlite:////s.db"


def test_without_a_database_the_message_says_what_to_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadSetting, match=r"metastore 'prod'.*COMPACTOR_METASTORE_URL.*\[metastore\.prod\]"):
        configure("prod", environment={})


def test_an_unreadable_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(BadSetting, match=r"gone\.toml: cannot be read"):
        configure(environment=URL, config_path=str(tmp_path / "gone.toml"))
    with pytest.raises(BadSetting, match="hive_conf"):
        configure(environment={**URL, "COMPACTOR_HIVE_CONF": str(tmp_path / "gone")})
    with pytest.raises(BadSetting, match=r"compactor\.moed"):
        configure(environment=URL, flags={"compactor.moed": "clean"})


def test_a_configuration_in_the_current_directory_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    toml(tmp_path / "compactor.toml", '[metastore.default]\nurl = "sqlite:////here.db"\n')
    assert configure(environment={}).url == "sqlite:////here.db"


def test_a_site_is_open_until_the_block_ends(metastore: Metastore, metastore_url: str) -> None:
    configuration = configure(environment={"COMPACTOR_METASTORE_URL": metastore_url})
    with open_site(configuration) as site:
        assert site.metastore.catalog.databases() == {}
        assert site.state is not None
        assert not site.metastore.database.read_only
        assert site.identity("worker").startswith("compactor-worker-")
        assert len(site.identity("worker")) <= 128


@pytest.mark.parametrize(
    ("flags", "environment", "place"),
    [
        ({}, {}, "{folder}/metastore.db.memory/default"),
        ({}, {"COMPACTOR_WAREHOUSE": "/w"}, "{folder}/metastore.db.memory/default"),
        ({"compactor.memory": "file:/m/x/"}, {}, "/m/x/default"),
        ({"compactor.memory": "s3a://b/m"}, {}, "s3a://b/m/default"),
    ],
)
def test_the_place_in_which_counters_are_remembered(
    metastore: Metastore,
    metastore_url: str,
    tmp_path: Path,
    flags: dict[str, str],
    environment: dict[str, str],
    place: str,
) -> None:
    """PROTOCOL 11.2: beside the file of an embedded metastore, unless it is configured."""
    with open_site(
        configure(flags=flags, environment={"COMPACTOR_METASTORE_URL": metastore_url, **environment})
    ) as site:
        assert site.memory is not None
        assert site.memory.place == place.format(folder=tmp_path)


def test_another_metastores_counters_are_remembered_in_its_warehouse(metastore: Metastore) -> None:
    """PROTOCOL 11.2: under a name that every reader skips; nowhere without a warehouse."""
    foreign = {"COMPACTOR_METASTORE_URL": "postgresql://h/hive"}
    of = {**foreign, "COMPACTOR_WAREHOUSE": "hdfs://nn:8020/w/"}
    found = memory_of(configure("prod", environment=of), metastore, Stores())
    assert found is not None
    assert found.place == "hdfs://nn:8020/w/.compactor/memory/prod"
    assert memory_of(configure(environment=foreign), metastore, Stores()) is None
    with pytest.raises(BadSetting, match=r"compactor\.memory = 'm': wanted an absolute path or a URI"):
        memory_of(configure(flags={"compactor.memory": "m"}, environment=foreign), metastore, Stores())


def test_mode_observe_opens_for_reading_only(metastore: Metastore, metastore_url: str) -> None:
    configuration = configure(
        environment={"COMPACTOR_METASTORE_URL": metastore_url}, flags={"compactor.mode": "observe"}
    )
    with open_site(configuration) as site:
        assert site.state is None
        with pytest.raises(DatabaseUnavailable, match="read-only"):
            site.metastore.embedded_catalog.create_database("d", "/d")


def test_a_deployment_reads_the_environment(
    metastore: Metastore, metastore_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(os.environ, "COMPACTOR_METASTORE_URL", metastore_url)
    with open_deployment(flags={THRESHOLD: "3"}) as site:
        assert site.settings.integer(THRESHOLD) == 3


def test_limits_of_transactions_come_from_the_configuration(metastore: Metastore, metastore_url: str) -> None:
    """``hive.max.open.txns``, ``hive.txn.max.open.batch`` and ``hive.txn.use.minhistorylevel`` of the site."""
    limits = {"hive.max.open.txns": "4", "hive.txn.max.open.batch": "3", "hive.txn.use.minhistorylevel": "false"}
    limits["hive.count.open.txns.interval"] = "1h"
    configuration = configure(flags=limits, environment={"COMPACTOR_METASTORE_URL": metastore_url})
    with open_site(configuration) as site:
        assert len(site.metastore.transactions.open("u", "h", count=9)) == 3
        assert len(site.metastore.transactions.open("u", "h", count=9)) == 3
        with pytest.raises(Refused, match=r"6 are open, 4 are allowed"):
            site.metastore.transactions.open("u", "h")
        for number in range(1, 7):
            site.metastore.transactions.commit(TxnId(number))
        with pytest.raises(Refused, match=r"6 are open"):  # they are counted again in an hour
            site.metastore.transactions.open("u", "h")
        with site.metastore.database.read() as conn:
            assert conn.execute(MIN_HISTORY_LEVEL.select()).all() == []


@pytest.mark.parametrize(
    ("schema", "flags", "kinds"),
    [
        *(("4.1.0", {}, ["u"]), ("4.1.0", {HISTORY_BY_WRITE_IDS: "true"}, ["i", "u"])),
        *(("4.2.0", {}, ["i", "u"]), ("4.2.0", {HISTORY_BY_WRITE_IDS: "false"}, ["u"])),
    ],
)
def test_which_writes_a_commit_records_depends_on_the_schema(
    metastore: Metastore, metastore_url: str, schema: str, flags: dict[str, str], kinds: list[str]
) -> None:
    """As Hive's of that schema does by itself: 4.2 records inserts too, by which its sessions see that others wrote."""
    with metastore.database.write() as conn:
        conn.execute(VERSION.update().values(SCHEMA_VERSION=schema))
    configuration = configure(flags=flags, environment={"COMPACTOR_METASTORE_URL": metastore_url})
    with open_site(configuration) as site:
        [txn] = site.metastore.transactions.open("u", "h")
        write_id = site.metastore.write_ids.allocate(txn, "default", "t")
        for kind in ("i", "u"):
            site.metastore.write_ids.add_component(txn, Entity(database="default", table="t"), kind, write_id)
        site.metastore.transactions.commit(txn)
        with site.metastore.database.read() as conn:
            assert sorted(conn.execute(select(WRITE_SET.c.WS_OPERATION_TYPE)).scalars()) == kinds
            assert conn.execute(select(MIN_HISTORY_LEVEL.c.MHL_TXNID)).scalars().all() == []


def test_storage_options_come_from_the_file(tmp_path: Path) -> None:
    config = toml(tmp_path / "c.toml", '[storage.s3]\nendpoint_url = "http://minio:9000"\nsecret = "hush"\n')
    found = configure(environment={"COMPACTOR_CONFIG": config, **URL})
    assert found.stores.of_place("s3", "b") == {"endpoint_url": "http://minio:9000", "secret": "hush"}
    assert "hush" not in repr(found)
    config = toml(tmp_path / "c.toml", "[storage.ftp]\nhost = 1\n")
    with pytest.raises(BadSetting, match="no such store"):
        configure(environment={"COMPACTOR_CONFIG": config, **URL})


def test_places_of_the_site_itself_may_get_credentials(tmp_path: Path) -> None:
    """The places that its own files name: the warehouse, the memory, Hive's default file system and warehouse."""
    property = "<configuration><property><name>{}</name><value>{}</value></property></configuration>"
    (tmp_path / "hive-site.xml").write_text(property.format("fs.defaultFS", "hdfs://ns1"))
    (tmp_path / "metastore-site.xml").write_text(property.format("metastore.warehouse.dir", "hdfs://nn2:9000/w"))
    environment = {**URL, "COMPACTOR_WAREHOUSE": "hdfs://nn3:8020/w", "COMPACTOR_HIVE_CONF": str(tmp_path)}
    found = configure(environment=environment, flags={"compactor.memory": "s3a://marks/m"}).stores
    assert found.named == ("hdfs://nn2:9000", "hdfs://nn3:8020", "hdfs://ns1", "s3://marks")
    assert found.admitted("hdfs", "NS1:8020") == {}
    with pytest.raises(UnnamedPlace):
        found.admitted("hdfs", "ns2")


def test_the_site_limits_its_listings(tmp_path: Path, metastore: Metastore, metastore_url: str) -> None:
    (tmp_path / "t" / "delta_0000001_0000001").mkdir(parents=True)
    (tmp_path / "t" / "delta_0000001_0000001" / "bucket_00000").write_bytes(b"")
    environment = {"COMPACTOR_METASTORE_URL": metastore_url}
    for key, allowed in (("compactor.listing.entries", "2"), ("compactor.listing.depth", "1")):
        with open_site(configure(flags={key: allowed}, environment=environment)) as site:
            assert len(site.storage.listing(f"{tmp_path}/t").files) == 1
    (tmp_path / "t" / "delta_0000001_0000001" / "deep").mkdir()
    for key, allowed in (("compactor.listing.entries", "2"), ("compactor.listing.depth", "1")):
        given = configure(flags={key: allowed}, environment=environment)
        with open_site(given) as site, pytest.raises(UnsafeDirectory, match=key):
            site.storage.listing(f"{tmp_path}/t")


def test_the_site_limits_its_files(tmp_path: Path) -> None:
    flags = {"compactor.file.stripes": "7", "compactor.stripe.bytes": "1GB"}
    found = configure(flags=flags, environment=URL).stores
    assert found.files == FileLimits(stripes=7, stripe_bytes=1 << 30)
    (tmp_path / "f").write_bytes(b"1")
    with open_source(Stores(found), f"{tmp_path}/f") as source:
        assert source.limits.stripes == 7


def test_stores_are_opened_without_a_metastore(tmp_path: Path) -> None:
    """A command that reads a file needs no database, and takes limits, stores and places from where all others do."""
    config = toml(
        tmp_path / "c.toml",
        '[metastore.a]\nwarehouse = "hdfs://nn:8020/w"\n[metastore.a.settings]\n"compactor.file.stripes" = 7\n'
        '[storage.s3]\nendpoint_url = "http://minio:9000"\n',
    )
    of_a = open_stores("a", config_path=config, environment={}, flags={"url": "sqlite://"}).options
    assert of_a == configure("a", config_path=config, environment=URL).stores
    assert (of_a.named, of_a.files.stripes) == (("hdfs://nn:8020",), 7)
    unnamed = open_stores(config_path=config, environment={}, flags={"compactor.file.stripes": "8"}).options
    assert (unnamed.text, unnamed.named, unnamed.files.stripes) == (of_a.text, (), 8)
    with pytest.raises(BadSetting, match="'b'"):
        open_stores("b", config_path=config, environment={})


def test_the_other_metastores_of_each_source(tmp_path: Path) -> None:
    """PROTOCOL 11.13: those of the file, of whoever started this process, and of Airflow; each is located when asked."""
    (tmp_path / "secret").write_text("p")
    (tmp_path / "secret").chmod(0o600)
    config = tmp_path / "compactor.toml"
    config.write_text(
        '[metastore.a]\nurl = "sqlite:////a.db"\n'
        f'[metastore.b]\nurl = "postgresql://x@localhost/b"\npassword_file = "{tmp_path}/secret"\n'
        '[metastore.c]\nmode = "observe"\n'
    )
    passed_on = json.dumps({"c": {"url": "sqlite:////c.db"}, "d": {"url": "sqlite:////d.db"}, "a": {"url": "x"}})
    found = configure(
        "a",
        config_path=str(config),
        environment={OTHERS: passed_on},
        others={"d": lambda: {"url": "sqlite:////connected.db"}, "e": dict},
    )
    assert {other.name: other.locate() for other in found.others} == {
        "b": "postgresql://x:p@localhost/b",
        "c": "sqlite:////c.db",
        "d": "sqlite:////connected.db",
        "e": None,
    }


@pytest.mark.parametrize("text", ["[", "[1]", '{"a": 1}'])
def test_other_metastores_that_cannot_be_understood_are_refused(text: str) -> None:
    with pytest.raises(BadSetting, match="COMPACTOR_OTHER_METASTORES: wanted a JSON object of objects") as raised:
        configure(environment={OTHERS: text, "COMPACTOR_METASTORE_URL": "sqlite:////x.db"})
    assert text not in str(raised.value)

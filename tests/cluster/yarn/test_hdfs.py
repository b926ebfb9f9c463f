"""HDFS as the file system of a cluster: Spark's staging, the packed environment and the tables lie in it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest

from compactor.compaction.states import State
from compactor.launch.spark_submit import Fate
from compactor.requests.request import request_compaction
from compactor.storage.store_options import StoreOptions
from compactor.storage.stores import Stores
from tests.support.daemons import Hdfs, hdfs
from tests.support.hadoop import write_site
from tests.support.moved_tables import moved, read_rows
from tests.support.yarn import USER
from tests.support.yarn_site import YarnSite


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hdfs]:
    with hdfs(tmp_path_factory.mktemp("hdfs"), USER) as found:
        yield found


@pytest.mark.parametrize("mode", ["client", "cluster"])
def test_all_of_it_lies_in_hdfs(on_yarn: YarnSite, store: Hdfs, metastore_url: str, mode: str) -> None:
    own = {"url": store.url, "user": USER}
    stores, top = Stores(StoreOptions.from_tables({"hdfs": own})), f"{store.location}/{mode}"
    stores.make_directories(f"{top}/apps", like=f"{store.location}/")
    archive = f"{top}/apps/compactor-spark.tar.gz"
    stores.upload(str(on_yarn.packed.archive), archive)
    further = "[storage.hdfs]\n" + "".join(f'{key} = "{value}"\n' for key, value in own.items())
    packed = {"compactor.spark.archives": f"{archive}#environment"}
    on_yarn.write_config(metastore_url, packed, further)
    table = on_yarn.table("t")
    stores.make_directories(f"{top}/t", like=f"{top}/apps")
    site = moved(on_yarn.site, table, stores, f"{top}/t")
    before = read_rows(site, table)
    request_compaction(site, table="t", properties={"hive.compactor.job.queue": "etl"})
    done = in_hdfs(on_yarn, store).submit(mode, "--json", conf={"spark.yarn.stagingDir": f"{top}/staging"})
    (said,) = json.loads(done.stdout)
    assert said["state"] == Fate.DONE.value, done.stderr[-5000:]
    assert "Fetching hdfs://" not in done.stderr  # YARN alone hands it out
    assert on_yarn.entry(table).state is State.READY_FOR_CLEANING
    assert read_rows(site, table) == before
    (base,) = (path for path in stores.children(f"{top}/t") if "base_" in str(path))
    assert base


def in_hdfs(on_yarn: YarnSite, store: Hdfs) -> YarnSite:
    """The same site for clients whose default file system is HDFS."""
    folder = on_yarn.folder / "hadoop"
    folder.mkdir()
    write_site(folder / "core-site.xml", {"fs.defaultFS": store.location})
    (folder / "yarn-site.xml").write_bytes((on_yarn.yarn.configuration / "yarn-site.xml").read_bytes())
    return replace(on_yarn, hadoop=folder)

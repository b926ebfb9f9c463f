"""The stores that a table may lie in, each with an empty place of its own for every test."""

from __future__ import annotations

import getpass
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from compactor.storage.store_options import StoreOptions
from compactor.storage.stores import Stores
from tests.support.azurite import ACCOUNT, azurite, connection
from tests.support.daemons import Hdfs, gcs, hdfs, httpfs, s3
from tests.support.ozone import ozone

BUCKET = "warehouse"
AZURE = f"abfss://{BUCKET}@{ACCOUNT}.dfs.core.windows.net"
KINDS = ("local", "hdfs", "s3", "gs", "abfs")
#: Java servers more, for what is HDFS and S3 for us.
BY_HTTPFS = pytest.param("httpfs", marks=pytest.mark.whole)
BY_OZONE = pytest.param("ozone", marks=pytest.mark.whole)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """An empty directory ``location`` in one of the stores; ``stores`` reaches it."""

    kind: str
    location: str
    stores: Stores


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hdfs]:
    with hdfs(tmp_path_factory.mktemp("hdfs"), getpass.getuser()) as found:
        yield found


@pytest.fixture(scope="session")
def httpfs_url(cluster: Hdfs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with httpfs(tmp_path_factory.mktemp("httpfs"), cluster) as url:
        yield url


@pytest.fixture(scope="session")
def s3_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with s3(tmp_path_factory.mktemp("s3")) as url:
        _create_bucket(url)
        yield url


@pytest.fixture(scope="session")
def ozone_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with ozone(tmp_path_factory.mktemp("ozone")) as url:
        _create_bucket(url)
        yield url


def _create_bucket(url: str) -> None:
    stores = Stores(s3_options(url))
    stores.store_of("s3://x")._system(f"s3://{BUCKET}/x").call_s3("create_bucket", Bucket=BUCKET)  # type: ignore[attr-defined]


@pytest.fixture(scope="session")
def gcs_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with gcs(tmp_path_factory.mktemp("gcs"), BUCKET) as url:
        yield url


@pytest.fixture(scope="session")
def azure_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with azurite(tmp_path_factory.mktemp("azurite"), BUCKET) as url:
        yield url


def s3_options(url: str) -> StoreOptions:
    return StoreOptions.from_tables({"s3": {"endpoint_url": url, "key": "somebody", "secret": "something"}})


def gcs_options(url: str) -> StoreOptions:
    return StoreOptions.from_tables({"gs": {"endpoint_url": url, "token": "anon", "project": "tests"}})


def azure_options(url: str) -> StoreOptions:
    return StoreOptions.from_tables({"abfs": {"connection_string": connection(url)}})


def hdfs_options(url: str) -> StoreOptions:
    return StoreOptions.from_tables({"hdfs": {"url": url, "user": getpass.getuser(), "timeout": 120}})


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    kind = request.param
    name = f"{request.node.originalname}-{tmp_path.name}"
    if kind == "local":
        (tmp_path / "t").mkdir()
        return Place(kind=kind, location=f"file:{tmp_path}/t", stores=Stores())
    if kind in ("hdfs", "httpfs"):
        cluster: Hdfs = request.getfixturevalue("cluster")
        stores = Stores(hdfs_options(cluster.url if kind == "hdfs" else request.getfixturevalue("httpfs_url")))
        location = f"{cluster.location}/{name}-{kind}/t"
        stores.make_directories(location, like=f"{cluster.location}/")
        return Place(kind="hdfs", location=location, stores=stores)
    if kind == "gs":
        stores = Stores(gcs_options(request.getfixturevalue("gcs_url")))
        return Place(kind=kind, location=f"gs://{BUCKET}/{name}/t", stores=stores)
    if kind == "abfs":
        stores = Stores(azure_options(request.getfixturevalue("azure_url")))
        return Place(kind=kind, location=f"{AZURE}/{name}/t", stores=stores)
    url: str = request.getfixturevalue("ozone_url" if kind == "ozone" else "s3_url")
    return Place(kind="s3", location=f"s3a://{BUCKET}/{name}/t", stores=Stores(s3_options(url)))

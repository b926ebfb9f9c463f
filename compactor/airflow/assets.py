"""Assets whose URI is ``hive://METASTORE/DATABASE/TABLE``, as Airflow's provider manager asks for them.

Two of our own stand beside the tables of a metastore: ``hive://METASTORE/-/requested`` and ``…/-/compacted``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, urlsplit

from airflow.sdk import Asset, AssetAlias

if TYPE_CHECKING:
    from airflow.providers.common.compat.openlineage.facet import Dataset

SCHEME = "hive"
_OURS = "-"  #: where a table has its database; no database of Hive has such a name


def sanitize_uri(uri: SplitResult) -> SplitResult:
    """The URI as all who mean this table write it: Hive keeps names of databases and tables in lower case.

    Raises:
        ValueError: it names no metastore, or no table.
    """
    database, _, table = uri.path.strip("/").partition("/")
    if not uri.netloc or not database or not table:
        raise ValueError(
            f"{uri.geturl()!r} names no table of Hive; wanted: hive://METASTORE/DATABASE/TABLE, the metastore being a name "
            "of [compactor] metastores or the host and port of another one"
        )
    name, *partition = table.split("/")
    return uri._replace(path="/".join(["", database.lower(), name.lower(), *partition]))


def create_asset(
    *, database: str, table: str, metastore: str = "default", extra: dict[str, Any] | None = None
) -> Asset:
    """A table as an asset.

    Raises:
        ValueError: a name is empty.
    """
    return Asset(uri=f"{SCHEME}://{metastore}/{database}/{table}", extra=extra)


def convert_asset_to_openlineage(asset: Asset, lineage_context: object) -> Dataset | None:
    """The table as OpenLineage names those of Hive: the metastore's authority, and ``database.table`` in it.

    None for what is no table, and where no client of OpenLineage is installed.
    """
    from airflow.providers.common.compat.openlineage.facet import Dataset

    parsed = urlsplit(asset.uri)
    database, _, table = parsed.path.strip("/").partition("/")
    if database == _OURS:
        return None
    return Dataset(namespace=f"{SCHEME}://{parsed.netloc}", name=f"{database}.{table.partition('/')[0]}")


def requested(metastore: str) -> Asset:
    """Events of this asset say that requests wait for a worker."""
    return _event(metastore, "requested")


def compacted(metastore: str) -> Asset:
    """Events of this asset say that requests wait for the cleaner."""
    return _event(metastore, "compacted")


def tables(metastore: str) -> AssetAlias:
    """By this a batch tells of the tables that it compacted; which ones it knows when it has ended."""
    return AssetAlias(name=f"{SCHEME}://{metastore}/?")


def _event(metastore: str, what: str) -> Asset:
    uri = f"{SCHEME}://{metastore}/{_OURS}/{what}"
    return Asset(name=uri, uri=uri)

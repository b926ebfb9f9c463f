"""Assets with URIs ``hive://METASTORE/DATABASE/TABLE``, and the lineage of compacted tables.

Each metastore also has two assets of our own: ``hive://METASTORE/-/requested`` and ``hive://METASTORE/-/compacted``. A table
that is watched for commits has ``hive://METASTORE/DATABASE/TABLE/-/committed``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import SplitResult, urlsplit

from airflow.sdk import Asset, AssetAlias

if TYPE_CHECKING:
    from airflow.providers.common.compat.openlineage.facet import Dataset
    from airflow.providers.openlineage.extractors import OperatorLineage


SCHEME = "hive"
_OURS = "-"  #: stands in for a database; Hive allows no database of this name


def sanitize_uri(uri: SplitResult) -> SplitResult:
    """Returns the canonical URI: Hive keeps names of databases and tables in lower case.

    Raises:
        ValueError: the URI names no metastore, or no table.
    """
    database, _, table = uri.path.strip("/").partition("/")
    if not uri.netloc or not database or not table:
        raise ValueError(
            f"{uri.geturl()!r} does not name a Hive table; expected: hive://METASTORE/DATABASE/TABLE, where METASTORE is a "
            "name in [compactor] metastores, or the host and port of another metastore"
        )
    name, *partition = table.split("/")
    return uri._replace(path="/".join(["", database.lower(), name.lower(), *partition]))


def create_asset(
    *, database: str, table: str, metastore: str = "default", extra: dict[str, Any] | None = None
) -> Asset:
    """Creates the asset of a table.

    Raises:
        ValueError: a name is empty.
    """
    return Asset(uri=f"{SCHEME}://{metastore}/{database}/{table}", extra=extra)


def convert_asset_to_openlineage(asset: Asset, lineage_context: object) -> Dataset | None:
    """Returns the table by OpenLineage's names for Hive.

    These are the metastore's authority, and ``database.table`` in it.

    None for an asset that is not a table, or if no OpenLineage client is installed.
    """
    from airflow.providers.common.compat.openlineage.facet import Dataset

    parsed = urlsplit(asset.uri)
    database, _, table = parsed.path.strip("/").partition("/")
    if database == _OURS:
        return None
    return Dataset(namespace=f"{SCHEME}://{parsed.netloc}", name=f"{database}.{table.partition('/')[0]}")


def requested(metastore: str) -> Asset:
    """Returns the asset with an event whenever requests wait for a worker."""
    return _event(metastore, "requested")


def compacted(metastore: str) -> Asset:
    """Returns the asset with an event whenever requests wait for the cleaner."""
    return _event(metastore, "compacted")


def tables(metastore: str) -> AssetAlias:
    """Returns the alias under which a batch reports the tables that it compacted.

    Only the end of the batch tells which.
    """
    return AssetAlias(name=f"{SCHEME}://{metastore}/?")


def committed(table: str, metastore: str = "default") -> Asset:
    """Returns the asset of commits to ``table``.

    It differs from the table's own asset, which compactions report.

    Raises:
        ValueError: ``table`` is not of the form ``DATABASE.TABLE``.
    """
    database, dot, name = table.strip().lower().partition(".")
    if not (database and dot and name) or "." in name or "/" in table:
        raise ValueError(f"{table!r} does not name a Hive table; expected: DATABASE.TABLE")
    uri = f"{SCHEME}://{metastore}/{database}/{name}/{_OURS}/committed"
    return Asset(name=uri, uri=uri)


def _event(metastore: str, what: str) -> Asset:
    uri = f"{SCHEME}://{metastore}/{_OURS}/{what}"
    return Asset(name=uri, uri=uri)


_Facet = TypeVar("_Facet")


def make_lineage(metastore: str, compactions: Collection[int]) -> OperatorLineage:
    """Returns each table that ``compactions`` wrote, as an input and an output.

    Each has its rows, bytes and files.

    Tables have the names of ``convert_asset_to_openlineage``. Only the OpenLineage provider calls this, so its classes are
    imported here.
    """
    from airflow.providers.openlineage.extractors import OperatorLineage
    from openlineage.client.event_v2 import InputDataset, OutputDataset
    from openlineage.client.generated.input_statistics_input_dataset import InputStatisticsInputDatasetFacet
    from openlineage.client.generated.output_statistics_output_dataset import OutputStatisticsOutputDatasetFacet

    from compactor.airflow import tasks

    namespace = f"{SCHEME}://{metastore}"
    inputs, outputs = [], []
    for table, figures in tasks.sum_run_figures(metastore, compactions).items():
        read = _make_facet(InputStatisticsInputDatasetFacet, figures, "in")
        written = _make_facet(OutputStatisticsOutputDatasetFacet, figures, "out")
        inputs.append(InputDataset(namespace=namespace, name=table, inputFacets={"inputStatistics": read}))
        outputs.append(OutputDataset(namespace=namespace, name=table, outputFacets={"outputStatistics": written}))
    return OperatorLineage(inputs=inputs, outputs=outputs)


def _make_facet(facet: Callable[..., _Facet], figures: Mapping[str, int], way: str) -> _Facet:
    rows, size, files = (figures[f"{name}_{way}"] for name in ("rows", "bytes", "files"))
    return facet(rowCount=rows, size=size, fileCount=files)

"""The tables that a task compacted, for OpenLineage: as they were read and as they were written.

Only the OpenLineage provider asks for it, so its classes are imported then.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, TypeVar

from compactor.airflow.assets import SCHEME

if TYPE_CHECKING:
    from airflow.providers.openlineage.extractors import OperatorLineage

_Facet = TypeVar("_Facet")


def lineage_of(metastore: str, compactions: Collection[int]) -> OperatorLineage:
    """Returns each table that ``compactions`` wrote as an input and as an output, with the rows, bytes and files of its
    partitions together, under the names of ``assets.convert_asset_to_openlineage``."""
    from airflow.providers.openlineage.extractors import OperatorLineage
    from openlineage.client.event_v2 import InputDataset, OutputDataset
    from openlineage.client.generated.input_statistics_input_dataset import InputStatisticsInputDatasetFacet
    from openlineage.client.generated.output_statistics_output_dataset import OutputStatisticsOutputDatasetFacet

    from compactor.airflow import tasks

    namespace = f"{SCHEME}://{metastore}"
    inputs, outputs = [], []
    for table, figures in tasks.run_figures(metastore, compactions).items():
        read = _statistics(InputStatisticsInputDatasetFacet, figures, "in")
        written = _statistics(OutputStatisticsOutputDatasetFacet, figures, "out")
        inputs.append(InputDataset(namespace=namespace, name=table, inputFacets={"inputStatistics": read}))
        outputs.append(OutputDataset(namespace=namespace, name=table, outputFacets={"outputStatistics": written}))
    return OperatorLineage(inputs=inputs, outputs=outputs)


def _statistics(facet: Callable[..., _Facet], figures: Mapping[str, int], way: str) -> _Facet:
    rows, size, files = (figures[f"{name}_{way}"] for name in ("rows", "bytes", "files"))
    return facet(rowCount=rows, size=size, fileCount=files)

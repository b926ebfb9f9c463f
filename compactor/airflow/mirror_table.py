"""Brings mirrors up to date within a user's own DAG: ``MirrorTableOperator``."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from airflow.sdk import Asset, AssetAlias, BaseOperator
from airflow.sdk.definitions.context import Context
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from compactor.airflow.task_ends import BACKOFF, RETRIES, RETRY_DELAY

ICEBERG = "iceberg"  #: the scheme of the assets of mirrors


def mirrored(catalog: str, identifier: str) -> Asset:
    """Returns the asset of a mirror: ``iceberg://CATALOG/NAMESPACE/TABLE``."""
    uri = f"{ICEBERG}://{catalog}/{identifier.replace('.', '/')}"
    return Asset(name=uri, uri=uri)


class MirrorTableOperator(BaseOperator):
    """Runs one pass over the mirror of a table, or over all mirrors of a metastore.

    Its value lists the mirrors with what the pass did. Each commit is an event of the asset ``mirrored``. The task fails
    without a further try if a mirror has stopped until a person decides; after any other error it is tried again.

    Args:
        table: ``DATABASE.TABLE``; None means every mirrored table.
    """

    template_fields: Sequence[str] = ("table",)
    ui_color = "#d8e6f0"

    def __init__(
        self,
        *,
        table: str | None = None,
        metastore: str = "default",
        retries: int | None = RETRIES,
        retry_delay: timedelta | float = RETRY_DELAY,
        retry_exponential_backoff: float = BACKOFF,
        **kwargs: Any,
    ) -> None:
        self._committed = AssetAlias(name=f"{ICEBERG}://{metastore}?")
        kwargs["outlets"] = [*(kwargs.get("outlets") or ()), self._committed]
        super().__init__(
            retries=retries,
            retry_delay=retry_delay,
            retry_exponential_backoff=retry_exponential_backoff,
            **kwargs,
        )
        self.table = table
        self.metastore = metastore

    def execute(self, context: Context) -> list[dict[str, Any]]:
        """Runs the pass, and reports each commit.

        Raises:
            AirflowFailException: a mirror has stopped until a person decides, or does not exist.
            AirflowException: a pass failed for another reason; the next try repeats it.
        """
        from compactor.airflow import tasks

        passes = tasks.run_mirrors_once(self.metastore, [] if self.table is None else [self.table])
        for done in passes:
            self.log.info("%s", done)
            if done["snapshot"] is not None:
                asset = mirrored(done["catalog"], done["mirror"])
                extra = {name: done[name] for name in ("table", "snapshot", "rows", "deleted")}
                context["outlet_events"][self._committed].add(asset, extra=extra)
        failed = [done for done in passes if done["error"] is not None]
        if failed:
            needs_person = any(done["needs_person"] for done in failed)
            raise (AirflowFailException if needs_person else AirflowException)(
                "; ".join(done["error"] for done in failed)
            )
        return passes

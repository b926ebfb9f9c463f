"""Announces waiting requests to the worker's DAG, as ``compact_table`` does."""

from __future__ import annotations

import logging

from airflow._shared.timezones import timezone
from airflow.assets.manager import asset_manager
from airflow.models.asset import AssetModel
from airflow.utils.session import create_session
from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError

from compactor.airflow.assets import requested

log = logging.getLogger(__name__)


def announce(metastore: str, entries: int) -> bool:
    """Creates an event of the asset that the worker's DAG waits for.

    If there is no such asset, or Airflow's database refuses the event, the worker finds the entries at its next interval.

    Returns:
        True if the event was created.
    """
    uri = requested(metastore).uri
    try:
        with create_session() as session:
            asset = session.scalar(select(AssetModel).where(AssetModel.uri == uri).limit(1))
            if asset is None:
                return False
            event = asset_manager.register_asset_change(
                asset=asset,
                timestamp=timezone.utcnow(),
                extra={"entries": entries},
                source_is_api=True,
                session=session,
            )
            return event is not None
    except SQLAlchemyError as error:
        log.warning("%s: no event, the worker's next interval will do: %s", uri, error)
        return False

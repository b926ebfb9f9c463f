from __future__ import annotations

from typing import Any

from demo.demo_folder import DemoPaths


def test_where_airflow_knows_no_such_asset_nothing_happens(application: Any, place: DemoPaths) -> None:
    from compactor.airflow.page.worker_event import announce

    assert announce("nowhere", 1) is False


def test_the_workers_dag_is_told(application: Any, place: DemoPaths) -> None:
    from airflow.models.asset import AssetActive, AssetEvent, AssetModel
    from airflow.utils.session import create_session
    from sqlalchemy import select

    from compactor.airflow.page.worker_event import announce

    name = "hive://told/-/requested"
    with create_session() as session:
        asset = AssetModel(name=name, uri=name, group="asset")
        session.add(asset)
        session.flush()
        session.add(AssetActive.for_asset(asset))
    assert announce("told", 3) is True
    with create_session() as session:
        query = (
            select(AssetEvent.extra)
            .join(AssetModel, AssetModel.id == AssetEvent.asset_id)
            .where(AssetModel.uri == name)
        )
        (extra,) = session.scalars(query).all()
    assert extra["entries"] == 3

"""Records the scans of programs like the queries of other engines, if ``compactor.reads.own`` is set."""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from compactor.base.errors import CompactorError, failing_alone
from compactor.insight.read_events import digest_likeness
from compactor.metastore.catalog.values import Table
from compactor.site.site import Site
from compactor.state.read_counts import Read
from compactor.tables.reading.scan_request import ScanRequest
from compactor.tables.reading.scan_tasks import ScanPlan

log = logging.getLogger(__name__)
_SETTING = "compactor.reads.own"
_ENGINE = "compactor"
_Item = TypeVar("_Item")


class Stopwatch:
    """The seconds spent within its blocks."""

    def __init__(self) -> None:
        self.seconds = 0.0

    @contextmanager
    def running(self) -> Iterator[None]:
        """Adds the time of the block."""
        started_at = time.perf_counter()
        try:
            yield
        finally:
            self.seconds += time.perf_counter() - started_at

    def each(self, items: Iterable[_Item]) -> Iterator[_Item]:
        """Yields ``items`` and adds the time they take to come, without the time that their consumer takes."""
        coming, end = iter(items), object()
        while True:
            with self.running():
                item = next(coming, end)
            if item is end:
                return
            yield item  # type: ignore[misc]  # it is not the end


def record_scan(site: Site, table: Table, request: ScanRequest, plan: ScanPlan, seconds: float) -> None:
    """Records a scan that was read to its end and took ``seconds`` without its reader's own work.

    Errors are only logged, since the rows have been read.
    """
    if site.state is None or not site.settings.boolean(_SETTING):
        return
    try:
        with failing_alone(f"recording a scan of {table}"):
            site.state.reads.add(site.name, [_read(site, table, request, plan, seconds)])
    except CompactorError as error:
        log.warning("%s", error)


def _read(site: Site, table: Table, request: ScanRequest, plan: ScanPlan, seconds: float) -> Read:
    name = (table.database.lower(), table.name.lower())
    columns = "*" if request.selected_fields is None else ", ".join(sorted(request.selected_fields)) or "count(*)"
    text = f"select {columns} from {table}" + (f" where {request.row_filter}" if request.row_filter else "")
    return Read(
        database=name[0],
        table=name[1],
        engine=_ENGINE,
        query=uuid.uuid4().hex,
        like=digest_likeness(text, [name], quotes_are_text=False),
        at=site.metastore.now_ms(),
        seconds=seconds,
        files=sum(len(task.paths) for task in plan.tasks),
        bytes=sum(task.length for task in plan.tasks),
    )

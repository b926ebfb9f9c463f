"""Scans of programs tell of themselves, beside the queries of other engines, where ``compactor.reads.own`` asks for it."""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from compactor.base.errors import CompactorError, failing_alone
from compactor.insight.query_text import likeness
from compactor.metastore.catalog.values import Table
from compactor.site.site import Site
from compactor.state.read_counts import Read
from compactor.tables.reading.scan_tasks import ScanPlan
from compactor.tables.reading.wanted import Wanted

log = logging.getLogger(__name__)
_SETTING = "compactor.reads.own"
_ENGINE = "compactor"
_Thing = TypeVar("_Thing")


class Stopwatch:
    """The seconds that were spent in its blocks."""

    def __init__(self) -> None:
        self.seconds = 0.0

    @contextmanager
    def running(self) -> Iterator[None]:
        """Counts the time of the block."""
        begun = time.perf_counter()
        try:
            yield
        finally:
            self.seconds += time.perf_counter() - begun

    def each(self, things: Iterable[_Thing]) -> Iterator[_Thing]:
        """Yields ``things`` and counts the time that they take to come, without that of whoever uses them."""
        coming, end = iter(things), object()
        while True:
            with self.running():
                thing = next(coming, end)
            if thing is end:
                return
            yield thing  # type: ignore[misc]  # it is not the end


def tell(site: Site, table: Table, wanted: Wanted, plan: ScanPlan, seconds: float) -> None:
    """Stores that a scan was read to its end, and took ``seconds`` without its reader's own work. What goes wrong is a
    warning: the rows are there."""
    if site.state is None or not site.settings.boolean(_SETTING):
        return
    try:
        with failing_alone(f"a scan of {table} that tells of itself"):
            site.state.reads.add(site.name, [_read(site, table, wanted, plan, seconds)])
    except CompactorError as error:
        log.warning("%s", error)


def _read(site: Site, table: Table, wanted: Wanted, plan: ScanPlan, seconds: float) -> Read:
    name = (table.database.lower(), table.name.lower())
    columns = "*" if wanted.selected_fields is None else ", ".join(sorted(wanted.selected_fields)) or "count(*)"
    text = f"select {columns} from {table}" + (f" where {wanted.row_filter}" if wanted.row_filter else "")
    return Read(
        database=name[0],
        table=name[1],
        engine=_ENGINE,
        query=uuid.uuid4().hex,
        like=likeness(text, [name], quotes_are_text=False),
        at=site.metastore.now_ms(),
        seconds=seconds,
        files=sum(len(task.paths) for task in plan.tasks),
        bytes=sum(task.length for task in plan.tasks),
    )

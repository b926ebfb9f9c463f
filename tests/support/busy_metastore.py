"""A metastore in which everything is going on at once, for pages that show it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from compactor.batches.assembly import list_claimable_ids
from compactor.batches.driver import run_entries
from compactor.compaction.health import Condition
from compactor.compaction.queue_entry import Entity
from compactor.initiator.initiator import initiate
from compactor.metastore.transactions.transaction_rows import TxnType
from compactor.requests.request import request_compaction
from compactor.rewrite.run.runner import InProcessRunner
from compactor.site.site import Site
from compactor.state.seen_conditions import SeenEntity
from compactor.worker.under_way import Options
from tests.support.passes import clean_all
from tests.support.tables import delete, insert, make_table, with_settings

MANY = 240  #: partitions of ``web.clicks``, which exist only as figures of the initiator
_LIMITS = {
    "hive.compactor.delta.num.threshold": 10,
    "hive.compactor.delta.pct.threshold": 0.1,
    "hive.compactor.abortedtxn.threshold": 1000,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Busy:
    """IDs of what can be acted on."""

    waiting: int
    working: int
    failed: int
    blocker: int


def make_busy(site: Site, warehouse: Path) -> Busy:
    """Creates tables in each condition: compacted, blocked, waiting, being worked on, failed and calm."""
    site = with_settings(site, hive_compactor_delta_num_threshold="4", compactor_opening_interval="1ms")
    for name in ("orders", "customers", "payments"):
        _written(site, warehouse, name)
        _compacted(site, name, "major")
    clean_all(site)
    failed = _failed(site)
    _written(site, warehouse, "shipments")
    (blocker,) = site.metastore.transactions.open(
        "ann", "laptop-7", type=TxnType.READ_ONLY, agent="HiveServer2 beeline"
    )
    _compacted(site, "shipments", "minor")
    working = _working(site, warehouse)
    waiting = _asked(site, warehouse)
    for number in range(6):
        _written(site, warehouse, f"returns_{number}", inserts=2 + number)
    initiate(with_settings(site, compactor_mode="observe", hive_compactor_delta_num_threshold="4"))
    _clicks(site)
    return Busy(waiting=waiting, working=working, failed=failed, blocker=blocker)


def _written(site: Site, warehouse: Path, name: str, inserts: int = 6) -> None:
    table = make_table(site, warehouse, name)
    for start in range(inserts):
        insert(site, table, range(start * 100, start * 100 + 100))
    if inserts > 3:
        delete(site, table, [3, 104])


def _compacted(site: Site, name: str, kind: str) -> None:
    request_compaction(site, table=f"default.{name}", type=kind)
    run_entries(site, list_claimable_ids(site), InProcessRunner(), Options())


def _failed(site: Site) -> int:
    from compactor.compaction.states import State

    (asked,) = request_compaction(site, table="default.payments", type="major")
    assert asked.entry_id is not None
    entry = site.metastore.claims.claim("compactor-worker-node3-811-1", "test", pool_timeout_ms=0)
    assert entry is not None
    site.metastore.claims.finish(entry, State.FAILED, "StorageError: hdfs://nn/payments: no space left on device")
    return entry.id


def _working(site: Site, warehouse: Path) -> int:
    _written(site, warehouse, "invoices")
    request_compaction(site, table="default.invoices", type="major")
    entry = site.metastore.claims.claim("compactor-worker-node4-902-1", "test", pool_timeout_ms=0)
    assert entry is not None
    return entry.id


def _asked(site: Site, warehouse: Path) -> int:
    _written(site, warehouse, "carts")
    (asked,) = request_compaction(site, table="default.carts", type="minor", pool="night")
    assert asked.entry_id is not None
    return asked.entry_id


def _clicks(site: Site) -> None:
    assert site.state is not None
    now = site.metastore.now_ms()
    site.state.conditions.record(site.name, [_day(number, now) for number in range(MANY)])


def _day(number: int, now: int) -> SeenEntity:
    mb = 1024 * 1024
    deltas = (number * 7) % 13
    numbers: dict[str, object] = {
        **_LIMITS,
        "base_bytes": (400 + number) * mb,
        "delta_bytes": deltas * 3 * mb,
        "delete_bytes": (deltas // 3) * mb,
        "deltas": deltas,
        "files": 4 + deltas,
        "small_files": deltas,
        "aborts": number % 3,
    }
    entity = Entity(database="web", table="clicks", partition=f"day=2026-{1 + number // 28:02}-{1 + number % 28:02}")
    due = deltas > 10
    seen = SeenEntity(
        entity=entity,
        outcome="minor" if due else "notneeded",
        because=f"{deltas} deltas {'>' if due else '<='} 10 (hive.compactor.delta.num.threshold)",
        flips=(f"more than 10 deltas (now {deltas})",),
        condition=Condition.from_numbers(numbers),
        last_compacted=now - number * 3_600_000,
        at=now - 60_000,
    )
    return replace(seen, last_compacted=None) if number % 5 == 0 else seen

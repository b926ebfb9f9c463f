"""Whether Hive's own initiator, worker and cleaner seem to run on this metastore, from what they leave in it."""

from __future__ import annotations

from dataclasses import dataclass

from compactor.service.site import Site

LEADERS = "__metastore_leader_election__"  #: HL_DB of the leases of Hive 4's metastores
_RECENT = 3  #: of how many check intervals one without a cycle of Hive's initiator means that it rests


@dataclass(frozen=True, slots=True, kw_only=True)
class HiveRoles:
    """``leases`` are tables of living leader leases, ``mutexes`` what Hive's threads ever held here.

    ``initiator_cycle`` is when Hive's initiator began its last cycle, epoch ms; None when it never did.
    ``initiator_active`` says that this was a few check intervals ago at most.
    """

    leases: tuple[str, ...] = ()
    mutexes: tuple[str, ...] = ()
    initiator_cycle: int | None = None
    initiator_active: bool = False

    @property
    def cleaner_may_run(self) -> bool:
        """Whether Hive's cleaner must be reckoned with: it leaves no time, so a living housekeeper counts as one."""
        return "Cleaner" in self.mutexes and (self.initiator_active or bool(self.leases))

    def to_json(self) -> dict[str, object]:
        return {
            "leases": list(self.leases),
            "mutexes": list(self.mutexes),
            "initiator_cycle": self.initiator_cycle,
            "initiator_active": self.initiator_active,
            "cleaner_may_run": self.cleaner_may_run,
        }


def hive_roles(site: Site) -> HiveRoles:
    """What Hive's threads have left in AUX_TABLE and HIVE_LOCKS. Our own mutexes bear a prefix and don't count."""
    held = site.metastore.mutexes.of_hive()
    cycle = held.get("Initiator") or None
    interval = site.settings.milliseconds("hive.compactor.check.interval")
    recent = cycle is not None and site.metastore.now_ms() - cycle < _RECENT * interval
    alive = site.metastore.now_ms() - site.settings.milliseconds("hive.txn.timeout")
    leases = {
        lock.table
        for lock in site.metastore.locks.show()
        if lock.database == LEADERS and lock.table is not None and lock.last_heartbeat > alive
    }
    return HiveRoles(
        leases=tuple(sorted(leases)),
        mutexes=tuple(sorted(held)),
        initiator_cycle=cycle,
        initiator_active=recent,
    )

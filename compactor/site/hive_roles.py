"""Detects by traces in the metastore whether Hive's own initiator, worker and cleaner seem to run."""

from __future__ import annotations

from dataclasses import dataclass

from compactor.site.site import Site

LEADERS = "__metastore_leader_election__"  #: HL_DB of the leases of Hive 4's metastores
_RECENT = 3  #: check intervals without a cycle after which Hive's initiator counts as inactive


@dataclass(frozen=True, slots=True, kw_only=True)
class HiveRoles:
    """The traces of Hive's own roles.

    ``leases`` are the tables of live leader leases, ``mutexes`` the names of mutexes that Hive's threads have ever held.

    ``initiator_cycle`` is the time at which Hive's initiator began its last cycle, in epoch ms; None if it never did.
    ``initiator_active`` is true if that was at most a few check intervals ago.
    """

    leases: tuple[str, ...] = ()
    mutexes: tuple[str, ...] = ()
    initiator_cycle: int | None = None
    initiator_active: bool = False

    @property
    def cleaner_may_run(self) -> bool:
        """True if Hive's cleaner may be running: it records no time, so a live Hive initiator or lease counts."""
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
    """Reads the traces of Hive's threads in AUX_TABLE and HIVE_LOCKS.

    Our own mutexes have a prefix and do not count.
    """
    mutexes = site.metastore.mutexes.hive_passes()
    cycle = mutexes.get("Initiator") or None
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
        mutexes=tuple(sorted(mutexes)),
        initiator_cycle=cycle,
        initiator_active=recent,
    )

"""The locks of a program's statements, which depend on the Hive whose schema the metastore has."""

from __future__ import annotations

from compactor.locking.lock_types import LockType
from compactor.locking.statement_locks import write_lock
from compactor.locking.statement_rules import HIVE_3, HIVE_4, AccessKind
from compactor.site.site import Site


def lock_of(site: Site, kind: AccessKind) -> LockType | None:
    """Returns the lock that a statement of that Hive takes on what it writes into; None where locks are off."""
    return write_lock(kind, site.settings, HIVE_4 if is_hive_4(site) else HIVE_3)


def excluding(site: Site, kind: LockType) -> LockType:
    """Returns the lock that excludes what ``kind`` does: an INSERT of Hive 3.1 takes a reader's lock, so that only EXCLUSIVE
    keeps it out."""
    return LockType.EXCLUSIVE if kind is LockType.EXCL_WRITE and not is_hive_4(site) else kind


def is_hive_4(site: Site) -> bool:
    """Returns true if the metastore has the schema of a Hive 4."""
    return site.metastore.dialect.layout.has_visibility

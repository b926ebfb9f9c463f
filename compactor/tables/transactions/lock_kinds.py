"""The locks that statements of a program take; they depend on the Hive release of the metastore's schema."""

from __future__ import annotations

from compactor.locking.lock_requests import LockType
from compactor.locking.statement_locks import write_lock
from compactor.locking.statement_rules import HIVE_3, HIVE_4, AccessKind
from compactor.site.site import Site


def find_write_lock(site: Site, kind: AccessKind) -> LockType | None:
    """Returns the lock that a statement takes on the table it writes into; None if locks are off."""
    return write_lock(kind, site.settings, HIVE_4 if is_hive_4(site) else HIVE_3)


def find_excluding_lock(site: Site, kind: LockType) -> LockType:
    """Returns the lock that keeps out the writers that ``kind`` means to exclude.

    An INSERT of Hive 3.1 takes a reader's lock, so only EXCLUSIVE keeps it out.
    """
    return LockType.EXCLUSIVE if kind is LockType.EXCL_WRITE and not is_hive_4(site) else kind


def is_hive_4(site: Site) -> bool:
    """Tells whether the metastore has the schema of a Hive 4 release."""
    return site.metastore.dialect.layout.has_visibility

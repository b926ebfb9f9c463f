"""The doctor's findings on quarantine: its size, overdue and unlisted directories, unsuitable stores."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from compactor.acid.names import Quarantine
from compactor.site.finding import Finding, Level, first_few, ok
from compactor.site.quarantine import SETTING
from compactor.site.site import Site

_LATE_MS = 3_600_000  #: a housekeeper that runs looks far more often
_MB = 1_000_000


def quarantine_findings(site: Site, seen: Sequence[str], cannot_keep: Sequence[str]) -> Iterator[Finding]:
    """Yields findings on quarantine; nothing where it was never used.

    Args:
        seen: paths of the quarantines that a walk over all tables found.
        cannot_keep: locations where ``compactor.quarantine`` is set and the store has no directory rename.
    """
    if cannot_keep:
        yield Finding(
            level=Level.FAIL,
            subject="quarantine",
            found=f"{SETTING} is set and the store cannot keep directories: {first_few(list(cannot_keep))}",
            wanted="a store with directory rename; in this one nothing is cleaned",
            fix=f"set the table's property {SETTING} to 0s, and rely on the store's own versions",
        )
    quarantines = [] if site.state is None else site.state.quarantines.all(site.name)
    known = {
        f"{quarantine.location}/{Quarantine(entry_id=quarantine.entry_id, is_erased=erased).name}"
        for quarantine in quarantines
        for erased in (False, True)
    }
    if strays := sorted(set(seen) - known):
        yield Finding(
            level=Level.WARN,
            subject="quarantine",
            found=f"not listed in our state: {first_few(strays)}",
            wanted="quarantines that `compactor show quarantine` lists; nothing erases others",
            fix="they were copied here, or the state was created again: remove them by hand once nobody needs them",
        )
    if not quarantines:
        return
    now = site.metastore.now_ms()
    late = [quarantine for quarantine in quarantines if quarantine.names and quarantine.until < now - _LATE_MS]
    if late:
        yield Finding(
            level=Level.WARN,
            subject="quarantine",
            found=f"{len(late)} quarantines are overdue, the first of {late[0].entity}",
            wanted="a housekeeper that erases them",
            fix="`compactor run housekeeper --once` says why: no_cleanup, a mode below clean, or a missing mount",
        )
    total_mb = sum(quarantine.bytes for quarantine in quarantines) // _MB
    yield ok("quarantine", f"{len(quarantines)} quarantines, {total_mb} MB")

"""The doctor's findings on quarantine: what it holds, what nobody erases, and stores that cannot keep anything."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from compactor.acid.names import Quarantine
from compactor.site.finding import Finding, Level, first_few, ok
from compactor.site.quarantine import SETTING
from compactor.site.site import Site

_LATE_MS = 3_600_000  #: a housekeeper that runs looks far more often
_MB = 1_000_000


def quarantine_findings(site: Site, seen: Sequence[str], cannot_keep: Sequence[str]) -> Iterator[Finding]:
    """Yields findings on quarantine; none where there never was any.

    Args:
        seen: paths of the quarantines that a walk over all tables met.
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
    listed = [] if site.state is None else site.state.quarantines.all(site.name)
    known = {
        f"{one.location}/{Quarantine(entry_id=one.entry_id, is_erased=erased).name}"
        for one in listed
        for erased in (False, True)
    }
    if strays := sorted(set(seen) - known):
        yield Finding(
            level=Level.WARN,
            subject="quarantine",
            found=f"not listed in our state: {first_few(strays)}",
            wanted="quarantines that `compactor show quarantine` lists; nothing erases others",
            fix="copied from another place, or the state was made again: remove them by hand once nobody wants them back",
        )
    if not listed:
        return
    now = site.metastore.now_ms()
    late = [one for one in listed if one.names and one.until < now - _LATE_MS]
    if late:
        yield Finding(
            level=Level.WARN,
            subject="quarantine",
            found=f"{len(late)} quarantines are still there although their time is over, the first of {late[0].entity}",
            wanted="a housekeeper that erases them",
            fix="`compactor run housekeeper --once` says why; no_cleanup, a mode below clean, or a mount that is away",
        )
    yield ok("quarantine", f"{len(listed)} quarantines, {sum(one.bytes for one in listed) // _MB} MB")

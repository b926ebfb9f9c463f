"""The memory of a metastore outside of its database, asked before anything is done that cannot be undone (PROTOCOL 11.2).

Files are read first and the database afterwards: whatever a file says was true of the database before the file was there.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Iterable

from compactor.base.errors import Disagreement, StorageError
from compactor.base.ids import TxnId
from compactor.base.steps import Step, reach
from compactor.base.utc import utc_text
from compactor.compaction.mark_comparison import (
    Doubt,
    Present,
    Remembered,
    doubt,
    has_changed,
    lacks_files,
    lacks_token,
    remembered_claims,
    to_remember,
)
from compactor.site.mark_files import MarkFiles
from compactor.site.mode import Mode, may_somewhere
from compactor.site.site import Site

log = logging.getLogger(__name__)
_FRESH_S = 10.0  #: for this long after a whole check, one that polls asks for the tokens only
_POLLED_MS = 60_000  #: how often one that polls remembers what has changed
_FEW = 5  #: contradictions that a message lists


def must_be_newest(site: Site, *, polling: bool = False, remembering: bool = True) -> None:
    """Checks that the metastore's database is not an older copy, and remembers what has changed since the last time.

    Does nothing in mode observe, and where no memory is configured. In mode request nothing is written.

    Args:
        polling: for callers that come by every second, or again in the same pass.
        remembering: false for a step in the middle of a pass, which only has to know what others have written meanwhile.

    Raises:
        Disagreement: the database says less than is remembered, or something else.
        StorageError: the memory cannot be read or written, so nothing may be removed.
    """
    memory = site.memory
    if memory is None or not may_somewhere(site.settings, Mode.REQUEST):
        return
    if polling and _is_fresh(site, memory):
        return
    memory.checked_at = None
    started = time.monotonic()
    files, now, found = judged(site, memory)
    if found is not None:
        raise Disagreement(sentence(site, memory, found))
    memory.known = files
    last = max(files, key=lambda file: file.token.number, default=None)
    waits = polling and last is not None and now.now_ms - last.token.at < _POLLED_MS
    writes = remembering and may_somewhere(site.settings, Mode.COMPACT) and not site.metastore.database.read_only
    if writes and not waits and has_changed(last, now):
        memory.known = (_remember(site, memory, last),)
    memory.checked_at = started


def must_still_be_newest(site: Site) -> None:
    """Checks again in a pass that takes long, for its next entry; nothing is asked within seconds of the last check.

    Raises:
        Disagreement: see ``must_be_newest``.
        StorageError: see ``must_be_newest``.
    """
    memory = site.memory
    if memory is not None and (memory.checked_at is None or time.monotonic() - memory.checked_at > _FRESH_S):
        must_be_newest(site, polling=True)


def must_not_be_older(site: Site, *, polling: bool = False, remembering: bool = True) -> bool:
    """Checks the same for what removes nothing. Returns false, with a warning in the log, if the memory is away.

    Raises:
        Disagreement: see ``must_be_newest``.
    """
    try:
        must_be_newest(site, polling=polling, remembering=remembering)
    except StorageError as error:
        log.warning("metastore %s: it is not known whether the database is an older copy: %s", site.name, error)
        return False
    return True


def doubt_of_programs(site: Site) -> str | None:
    """Returns why the database must be taken for an older copy, for a transaction of a program; None without a reason.

    One small read: only the newest token is compared, which an older copy lacks. The files are listed again after some
    seconds. A memory that cannot be read is a warning in the log.
    """
    memory = site.memory
    if memory is None or not may_somewhere(site.settings, Mode.REQUEST):
        return None
    started = time.monotonic()
    try:
        if memory.listed_at is None or started - memory.listed_at > _FRESH_S:
            memory.listed, memory.listed_at = memory.newest(), started
        if not lacks_token(memory.listed, site.metastore.marks.tokens(site.name)):
            return None
        memory.listed_at = None  # a person may agree at any time
        found = judged(site, memory)[2]
    except StorageError as error:
        log.warning("metastore %s: it is not known whether the database is an older copy: %s", site.name, error)
        return None
    return None if found is None else sentence(site, memory, found)


def doubt_of(site: Site) -> Doubt | None:
    """Returns the doubt whether the database is the newest one, in any mode; None without one, or without a memory.

    Raises:
        StorageError: the memory cannot be read.
    """
    return None if site.memory is None else judged(site, site.memory)[2]


def sentences_about(site: Site) -> tuple[str, ...]:
    """Returns what people have to know: the doubt, or that the memory is away. Empty if all is well."""
    if site.memory is None:
        return ()
    try:
        found = doubt_of(site)
    except StorageError as error:
        return (f"metastore {site.name}: {error}",)
    return () if found is None else (sentence(site, site.memory, found),)


def sentence(site: Site, memory: MarkFiles, found: Doubt) -> str:
    """Returns the message: which database, by how much it is behind, and what to do."""
    listed = [str(one) for one in found.contradictions[:_FEW]]
    more = len(found.contradictions) - len(listed)
    return (
        f"metastore {site.name} ({site.metastore.database.url}): the database is older than what {memory.place} remembers "
        f"of it{behind(found)}: {'; '.join(listed)}{f' and {more} more' if more else ''}. Wanted is a database that holds "
        "at least that: this one seems to have been restored from a backup, or promoted without its last commits. Nothing "
        "is timed out, aborted, compacted, removed, forgotten or purged; stop Hive's own compactor and cleaner, then put "
        "the right database back, or accept this one with `compactor metastore agree`"
    )


def behind(found: Doubt) -> str:
    """Returns by how much the database is behind, as the end of a clause; empty if there is no figure."""
    figures = [_counted(found.transactions, "transaction")] if found.transactions else []
    if found.write_ids:
        ids = _counted(sum(found.write_ids.values()), "write ID")
        figures.append(f"{ids} of {_counted(len(found.write_ids), 'table')}")
    times = [
        f"{what} {utc_text(at)}"
        for what, at in (("remembered", found.remembered_at), ("the database's last mark", found.database_at))
        if at is not None
    ]
    parts = [f"by {' and '.join(figures)}"] if figures else []
    parts += [f"({', '.join(times)})"] if times else []
    return " " + " ".join(parts) if parts else ""


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _is_fresh(site: Site, memory: MarkFiles) -> bool:
    """Returns true if a whole check was made not long ago and the database still has the newest token seen then."""
    if memory.checked_at is None or time.monotonic() - memory.checked_at > _FRESH_S or not memory.known:
        return False
    there = {(token.number, token.text) for token in site.metastore.marks.tokens(site.name)}
    return all((file.token.number, file.token.text) in there for file in memory.known)


def judged(site: Site, memory: MarkFiles) -> tuple[tuple[Remembered, ...], Present, Doubt | None]:
    """Reads both sides. What the database knows of and a listing from before does not show is looked for again."""
    files = memory.newest()
    now = site.metastore.marks.present(site.name, _transactions(files))
    later = memory.newest() if lacks_files(files, now) else files
    return files, now, doubt(files, now, later)


def restore_claim_token(site: Site) -> None:
    """Gives a database its token of claims back, if it was put back to before it had one (PROTOCOL 11.13).

    Only a person's ruling on such a database does this.
    """
    if site.memory is None:
        return
    try:
        files = site.memory.newest()
    except StorageError as error:
        log.warning("metastore %s: it is not known which token its claims on directories carry: %s", site.name, error)
        return
    claims = remembered_claims(files, site.metastore.marks.present(site.name).marks)
    if claims is not None:
        site.metastore.claim_token.restore(claims)


def _remember(site: Site, memory: MarkFiles, last: Remembered | None) -> Remembered:
    """Writes a token and the marks to both sides, the database first: it may be ahead, and the file may not.

    The token of claims is made here at the latest: a backup from before the first compaction has it then (PROTOCOL 11.13).
    """
    claims = site.metastore.claim_token.get_or_make()
    token, now = site.metastore.marks.mark(
        site.name,
        uuid.uuid4().hex,
        seen=0 if last is None else last.token.number,
        txns=_transactions(() if last is None else (last,)),
    )
    reach(Step.MARKED)
    remembered = to_remember(last, token, now.marks, claims)
    memory.add(remembered)
    return remembered


def _transactions(files: Iterable[Remembered]) -> set[TxnId]:
    return {txn for file in files for txn in file.marks.starts}

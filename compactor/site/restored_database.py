"""Checks by marks outside of the database that it is not an older copy, before irreversible steps.

See PROTOCOL 11.2.

The files of marks are read first, then the database: the database had reached a mark before its file was written.
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
    build_remembered,
    find_doubt,
    has_changed,
    lacks_files,
    lacks_token,
    remembered_claims,
)
from compactor.site.mark_files import MarkFiles
from compactor.site.mode import Mode, may_somewhere
from compactor.site.site import Site

log = logging.getLogger(__name__)
_FRESH_S = 10.0  #: for this long after a complete check, polling callers only compare tokens
_POLLED_MS = 60_000  #: how often polling callers write new marks
_FEW = 5  #: contradictions that a message lists


def must_be_newest(site: Site, *, polling: bool = False, remembering: bool = True) -> None:
    """Checks that the metastore's database is not an older copy, and writes new marks if it has changed.

    Does nothing in mode observe, or if no place for marks is configured. Writes nothing in mode request.

    Args:
        polling: true for callers that check every second, or repeatedly in one pass.
        remembering: false for a step within a pass, which only compares with the marks of others.

    Raises:
        Disagreement: the database contradicts its marks, or is behind them.
        StorageError: the marks cannot be read or written, so nothing may be removed.
    """
    memory = site.memory
    if memory is None or not may_somewhere(site.settings, Mode.REQUEST):
        return
    if polling and _is_fresh(site, memory):
        return
    memory.checked_at = None
    started = time.monotonic()
    files, now, doubt = compare_marks(site, memory)
    if doubt is not None:
        raise Disagreement(sentence(site, memory, doubt))
    memory.known = files
    last = max(files, key=lambda file: file.token.number, default=None)
    waits = polling and last is not None and now.now_ms - last.token.at < _POLLED_MS
    writes = remembering and may_somewhere(site.settings, Mode.COMPACT) and not site.metastore.database.read_only
    if writes and not waits and has_changed(last, now):
        memory.known = (_remember(site, memory, last),)
    memory.checked_at = started


def must_still_be_newest(site: Site) -> None:
    """Checks again before the next entry of a long pass; does nothing within seconds of the last check.

    Raises:
        Disagreement: see ``must_be_newest``.
        StorageError: see ``must_be_newest``.
    """
    memory = site.memory
    if memory is not None and (memory.checked_at is None or time.monotonic() - memory.checked_at > _FRESH_S):
        must_be_newest(site, polling=True)


def must_not_be_older(site: Site, *, polling: bool = False, remembering: bool = True) -> bool:
    """Checks the same before steps that remove nothing.

    Returns false, with a warning, if the marks cannot be read.

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
    """Returns why a program's transaction must take the database for an older copy; None without a reason.

    This is one small read: it only compares the newest token, which an older copy lacks. The files are listed again after
    some seconds. If the marks cannot be read, a warning is logged.
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
        doubt = compare_marks(site, memory)[2]
    except StorageError as error:
        log.warning("metastore %s: it is not known whether the database is an older copy: %s", site.name, error)
        return None
    return None if doubt is None else sentence(site, memory, doubt)


def doubt_of(site: Site) -> Doubt | None:
    """Returns the doubt that the database is the newest one, in any mode.

    Returns None without a doubt or without marks.

    Raises:
        StorageError: the marks cannot be read.
    """
    return None if site.memory is None else compare_marks(site, site.memory)[2]


def sentences_about(site: Site) -> tuple[str, ...]:
    """Returns messages for people: the doubt, or that the marks cannot be read. Empty if all is well."""
    if site.memory is None:
        return ()
    try:
        doubt = doubt_of(site)
    except StorageError as error:
        return (f"metastore {site.name}: {error}",)
    return () if doubt is None else (sentence(site, site.memory, doubt),)


def sentence(site: Site, memory: MarkFiles, doubt: Doubt) -> str:
    """Returns the message about a doubt: which database, by how much it is behind, and what to do."""
    listed = [str(contradiction) for contradiction in doubt.contradictions[:_FEW]]
    more = len(doubt.contradictions) - len(listed)
    return (
        f"metastore {site.name} ({site.metastore.database.url}): the database is older than what {memory.place} remembers "
        f"of it{behind(doubt)}: {'; '.join(listed)}{f' and {more} more' if more else ''}. Wanted is a database that holds "
        "at least that: this one seems to have been restored from a backup, or promoted without its last commits. Nothing "
        "is timed out, aborted, compacted, removed, forgotten or purged; stop Hive's own compactor and cleaner, then put "
        "the right database back, or accept this one with `compactor metastore agree`"
    )


def behind(doubt: Doubt) -> str:
    """Returns by how much the database is behind, as the end of a clause; empty if there is no figure."""
    figures = [_count(doubt.transactions, "transaction")] if doubt.transactions else []
    if doubt.write_ids:
        ids = _count(sum(doubt.write_ids.values()), "write ID")
        figures.append(f"{ids} of {_count(len(doubt.write_ids), 'table')}")
    times = [
        f"{what} {utc_text(at)}"
        for what, at in (("remembered", doubt.remembered_at), ("the database's last mark", doubt.database_at))
        if at is not None
    ]
    parts = [f"by {' and '.join(figures)}"] if figures else []
    parts += [f"({', '.join(times)})"] if times else []
    return " " + " ".join(parts) if parts else ""


def _count(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _is_fresh(site: Site, memory: MarkFiles) -> bool:
    """Returns true if the last complete check is recent, and the database still has its newest token."""
    if memory.checked_at is None or time.monotonic() - memory.checked_at > _FRESH_S or not memory.known:
        return False
    there = {(token.number, token.text) for token in site.metastore.marks.tokens(site.name)}
    return all((file.token.number, file.token.text) in there for file in memory.known)


def compare_marks(site: Site, memory: MarkFiles) -> tuple[tuple[Remembered, ...], Present, Doubt | None]:
    """Reads the marks in files and in the database, and returns both with the doubt, if any.

    The files are listed again if the database has a newer token than the first listing shows.
    """
    files = memory.newest()
    now = site.metastore.marks.present(site.name, _transactions(files))
    later = memory.newest() if lacks_files(files, now) else files
    return files, now, find_doubt(files, now, later)


def restore_claim_token(site: Site) -> None:
    """Restores the token of claims in a database that was put back to before it had one (PROTOCOL 11.13).

    This happens only after a person's ruling on such a database.
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
    """Writes a token and the marks to the database, then to a file: only the database may be ahead.

    This also creates the token of claims, so that a backup from before the first compaction has it (PROTOCOL 11.13).
    """
    claims = site.metastore.claim_token.get_or_create()
    token, now = site.metastore.marks.mark(
        site.name,
        uuid.uuid4().hex,
        seen=0 if last is None else last.token.number,
        txns=_transactions(() if last is None else (last,)),
    )
    reach(Step.MARKED)
    remembered = build_remembered(last, token, now.marks, claims)
    memory.add(remembered)
    return remembered


def _transactions(files: Iterable[Remembered]) -> set[TxnId]:
    return {txn for file in files for txn in file.marks.starts}

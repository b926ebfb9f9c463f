"""The user as whom a table is compacted: decided here alone, from the site's settings and who owns the data.

No row of the queue and no property has a say: anybody who may ask for a compaction writes those.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable

from compactor.base.errors import BadSetting, CompactorError, Refused, failing_alone
from compactor.base.identities import process_user
from compactor.settings.precedence import Settings
from compactor.site.site import Site, Target, Targets, own_state
from compactor.storage.protocol import Storage

log = logging.getLogger(__name__)
USER, AS_OWNER = "hive.compactor.run.as.user", "compactor.run.as.owner"
#: A name that Hadoop and Linux take for a user, and no command line for an option.
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._@/-]*\$?")


def run_as(site: Site, target: Target) -> str | None:
    """Returns the user as whom a table or partition is compacted; None is this process's own user.

    With ``compactor.run.as.owner`` it is the owner of its directory; in a store that knows no owners, the table's owner in
    the metastore.

    Raises:
        Refused: the owner is wanted and not known here, or is no name of a user.
        StorageError: the store cannot say who the owner is.
    """
    return wanted_user(site.settings, site.storage, target.entity, target.location, target.table.owner)


def wanted_user(settings: Settings, storage: Storage, what: object, location: str, owner: str | None) -> str | None:
    """Returns the user as whom ``what`` is compacted; see ``run_as``.

    Args:
        settings: the site's alone.
        owner: of its table, in the metastore.
    """
    user = settings.text(USER)
    if user:
        return _checked(user, f"{USER} = {user!r}")
    if not settings.boolean(AS_OWNER):
        return None
    if not storage.capabilities(location).has_owner:
        log.info("%s: its store knows no owners; the metastore's counts", what)
        return _checked(owner, f"{what}: its owner in the metastore is {owner!r}")
    return _checked(storage.owner(location), f"{what}: {location} belongs to a user who has no name here")


def _checked(user: str | None, found: str) -> str:
    if not user or _NAME.fullmatch(user) is None:
        raise Refused(f"{found}; wanted the name of a user, as whom it would be compacted ({USER}, {AS_OWNER})")
    return user


def must_be_ours(site: Site) -> None:
    """Refuses to work in this process for a site that wants it done by one other user.

    Raises:
        BadSetting: it wants that.
    """
    user = site.settings.text(USER)
    if user and user != process_user():
        raise BadSetting(
            f"{USER} = {user!r}, and this process runs as {process_user()!r} and can become nobody else; start the worker "
            f"as {user!r}, or let `compactor submit` or Airflow start applications"
        )


def left_to_others(site: Site, ids: Iterable[int], user: str | None = None) -> dict[int, str]:
    """Returns the entries that ``user``, by default this process's, may not work on, since another one is wanted, each with
    the reason. One whose user cannot be found out is not among them: its worker fails in the same way and records it."""
    if not (site.settings.boolean(AS_OWNER) or site.settings.text(USER)):
        return {}
    user = user or process_user()
    entries = site.metastore.entries.queue(ids=list(ids))
    targets = Targets(site, [entry.entity for entry in entries])
    found: dict[int, str] = {}
    for entry in entries:
        try:
            with failing_alone(entry.entity):
                wanted = run_as(site, targets.target(entry.entity, entry.properties))
        except CompactorError:
            continue
        if wanted is not None and user not in (wanted, re.split("[/@]", wanted)[0]):  # a principal's short name
            found[entry.id] = f"{entry.entity}: is to be compacted as {wanted}, and this process runs as {user}"
    return found


def must_run_as(site: Site, batch_id: int, user: str | None = None) -> None:
    """Refuses a planned batch that is to run as somebody else than ``user``, by default this process's.

    Raises:
        Refused: an entry of it is; the batch is left as it is.
        NotFound: there is no such batch.
    """
    for because in left_to_others(site, own_state(site).batches.get(batch_id).entry_ids, user).values():
        raise Refused(f"batch {batch_id}: {because}; submit it as that user, with --proxy-user")

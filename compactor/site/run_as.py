"""Decides as which user a table is compacted, from the site's settings and the owner of the data only.

Rows of the queue and table properties do not count, since everybody who may request a compaction can write them.
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
#: A user name of Hadoop and Linux that no command line takes for an option.
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._@/-]*\$?")


def run_as(site: Site, target: Target) -> str | None:
    """Returns the user as whom a table or partition is compacted; None is this process's own user.

    With ``compactor.run.as.owner`` this is the owner of the directory, or the table's owner in the metastore if the store
    has no owners.

    Raises:
        Refused: the owner is needed but unknown here, or is not a valid user name.
        StorageError: the store cannot say who the owner is.
    """
    return wanted_user(site.settings, site.storage, target.entity, target.location, target.table.owner)


def wanted_user(settings: Settings, storage: Storage, what: object, location: str, owner: str | None) -> str | None:
    """Returns the user as whom ``what`` is compacted; see ``run_as``.

    Args:
        settings: the settings of the site, without those of tables.
        owner: the table's owner in the metastore.
    """
    user = settings.text(USER)
    if user:
        return _check_name(user, f"{USER} = {user!r}")
    if not settings.boolean(AS_OWNER):
        return None
    if not storage.capabilities(location).has_owner:
        log.info("%s: its store knows no owners; the metastore's counts", what)
        return _check_name(owner, f"{what}: its owner in the metastore is {owner!r}")
    return _check_name(storage.owner(location), f"{what}: {location} belongs to a user who has no name here")


def _check_name(user: str | None, reason: str) -> str:
    if not user or _NAME.fullmatch(user) is None:
        raise Refused(f"{reason}; wanted the name of a user, as whom it would be compacted ({USER}, {AS_OWNER})")
    return user


def must_be_ours(site: Site) -> None:
    """Checks that this process runs as the user that the site demands.

    Raises:
        BadSetting: the site demands another user.
    """
    user = site.settings.text(USER)
    if user and user != process_user():
        raise BadSetting(
            f"{USER} = {user!r}, and this process runs as {process_user()!r} and can become nobody else; start the worker "
            f"as {user!r}, or let `compactor submit` or Airflow start applications"
        )


def entries_of_other_users(site: Site, ids: Iterable[int], user: str | None = None) -> dict[int, str]:
    """Returns the entries that another user than ``user`` must compact, each with the reason.

    ``user`` is this process's user by default. Entries whose user cannot be determined are left out: their worker meets the
    same error and records it.
    """
    if not (site.settings.boolean(AS_OWNER) or site.settings.text(USER)):
        return {}
    user = user or process_user()
    entries = site.metastore.entries.queue(ids=list(ids))
    targets = Targets(site, [entry.entity for entry in entries])
    reasons: dict[int, str] = {}
    for entry in entries:
        try:
            with failing_alone(entry.entity):
                required = run_as(site, targets.target(entry.entity, entry.properties))
        except CompactorError:
            continue
        if required is not None and user not in (required, re.split("[/@]", required)[0]):  # a principal's short name
            reasons[entry.id] = f"{entry.entity}: is to be compacted as {required}, and this process runs as {user}"
    return reasons


def must_run_as(site: Site, batch_id: int, user: str | None = None) -> None:
    """Checks that ``user``, by default this process's, may run all entries of a planned batch.

    Raises:
        Refused: an entry needs another user; the batch is not changed.
        NotFound: there is no such batch.
    """
    for because in entries_of_other_users(site, own_state(site).batches.get(batch_id).entry_ids, user).values():
        raise Refused(f"batch {batch_id}: {because}; submit it as that user, with --proxy-user")

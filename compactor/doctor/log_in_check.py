"""The doctor's check of our identity in each HDFS cluster, with or without Kerberos."""

from __future__ import annotations

from collections.abc import Iterator

from compactor.base.errors import CompactorError
from compactor.site.finding import Finding, Level, ok
from compactor.site.run_as import AS_OWNER, USER
from compactor.site.site import Site
from compactor.storage.log_in import LogIn, log_in
from compactor.storage.places import canonical
from compactor.storage.store_options import SCHEMES, StoreOptions

_SKEW_S = 60.0  #: differences above this are reported; Kerberos gives up at 300
_DAY_S = 86_400.0
_FEW = 10  #: users to try; each costs a log-in


def check_log_in(site: Site) -> Iterator[Finding]:
    """Logs in to each cluster that holds tables or that the configuration names.

    With ``doas``, also checks that we may act for the users whom applications run as.
    """
    options, users = site.storage.options, _list_users(site)
    for authority in _list_clusters(site):
        yield from _check_cluster(options, authority)
        for user in users:
            acting = options.acting_for(user)
            if acting.of_place("hdfs", authority).get("proxy_to") == user:
                yield from _check_acting_for(acting, authority)


def _list_clusters(site: Site) -> list[str]:
    """Returns one name of each cluster."""
    authorities: dict[str, str] = {}
    locations = [table.location for table in site.metastore.catalog.tables() if table.is_transactional]
    for location in locations:
        scheme, _, rest = (location or "").partition("://")
        if SCHEMES.get(scheme) == "hdfs":
            authority = rest.partition("/")[0]
            authorities.setdefault(canonical("hdfs", authority), authority)
    for authority in site.storage.options.of_kind("hdfs"):
        authorities.setdefault(canonical("hdfs", authority), authority)
    return list(authorities.values())


def _list_users(site: Site) -> list[str]:
    """Returns the first few users whom applications run as."""
    if user := site.settings.text(USER):
        return [user]
    if not site.settings.boolean(AS_OWNER):
        return []
    owners = {table.owner for table in site.metastore.catalog.tables() if table.is_transactional and table.owner}
    return sorted(owners)[:_FEW]


def _check_acting_for(options: StoreOptions, authority: str) -> Iterator[Finding]:
    """Yields whether the cluster's rules for proxy users let us act for a user."""
    try:
        session = log_in(options, authority)
    except CompactorError as error:
        yield Finding(
            level=Level.FAIL,
            subject="proxy user",
            found=str(error),
            wanted="the right to act for the users of applications",
        )
        return
    yield ok("proxy user", f"{session.cluster} lets us act for {session.user!r}")


def _check_cluster(options: StoreOptions, authority: str) -> Iterator[Finding]:
    try:
        session = log_in(options, authority)
    except CompactorError as error:
        yield Finding(
            level=Level.FAIL, subject="log-in", found=str(error), wanted=f"a log-in that hdfs://{authority} accepts"
        )
        return
    yield _check_tickets(session)
    if abs(session.clock_ahead_s) > _SKEW_S:
        yield Finding(
            level=Level.WARN,
            subject="clock of HDFS",
            found=f"{session.cluster} is {session.clock_ahead_s:+.0f} s from this machine",
            wanted="clocks that agree: Kerberos refuses clients whose clock differs by five minutes",
            fix="synchronize both with NTP",
        )


def _check_tickets(session: LogIn) -> Finding:
    identity = f"{session.cluster} knows us as {session.user!r}, {session.how}"
    if session.tickets is None:
        return ok("log-in", identity)
    identity = f"{identity}, as {session.tickets.principal}"
    if session.keytab is not None:
        return ok("log-in", f"{identity}; each log-in gets tickets for {_describe_period(session.tickets.seconds)}")
    return Finding(
        level=Level.WARN if session.tickets.seconds < _DAY_S else Level.OK,
        subject="log-in",
        found=f"{identity}; the ticket expires in {_describe_period(session.tickets.seconds)}, and nothing renews it here",
        wanted="a service that can log in without help",
        fix="write principal and keytab into [storage.hdfs], or have something renew the ticket cache (k5start, a timer)",
    )


def _describe_period(seconds: float) -> str:
    return f"{seconds / 3600:.1f} h" if seconds >= 3600 else f"{seconds / 60:.0f} min"

"""The doctor's check of who we are in each cluster of HDFS, by Kerberos or otherwise."""

from __future__ import annotations

from collections.abc import Iterator

from compactor.base.errors import CompactorError
from compactor.site.finding import Finding, Level, ok
from compactor.site.run_as import AS_OWNER, USER
from compactor.site.site import Site
from compactor.storage.log_in import LogIn, log_in
from compactor.storage.places import canonical
from compactor.storage.store_options import SCHEMES, StoreOptions

_SKEW_S = 60.0  #: from which on we warn; Kerberos gives up at 300
_DAY_S = 86_400.0
_FEW = 10  #: users that are tried; each is a log-in


def check_log_in(site: Site) -> Iterator[Finding]:
    """Yields findings on each cluster that tables lie in or that the configuration names by itself, as ourselves and, with
    ``doas``, on behalf of those as whom applications run."""
    options, users = site.storage.options, _users(site)
    for authority in _clusters(site):
        yield from _findings(options, authority)
        for user in users:
            acting = options.acting_for(user)
            if acting.of_place("hdfs", authority).get("proxy_to") == user:
                yield from _acting(acting, authority)


def _clusters(site: Site) -> list[str]:
    """Returns each cluster by one of its names."""
    found: dict[str, str] = {}
    locations = [table.location for table in site.metastore.catalog.tables() if table.is_transactional]
    for location in locations:
        scheme, _, rest = (location or "").partition("://")
        if SCHEMES.get(scheme) == "hdfs":
            authority = rest.partition("/")[0]
            found.setdefault(canonical("hdfs", authority), authority)
    for authority in site.storage.options.of_kind("hdfs"):
        found.setdefault(canonical("hdfs", authority), authority)
    return list(found.values())


def _users(site: Site) -> list[str]:
    """Returns the first few users as whom applications are to run."""
    if user := site.settings.text(USER):
        return [user]
    if not site.settings.boolean(AS_OWNER):
        return []
    owners = {table.owner for table in site.metastore.catalog.tables() if table.is_transactional and table.owner}
    return sorted(owners)[:_FEW]


def _acting(options: StoreOptions, authority: str) -> Iterator[Finding]:
    """Yields one finding: whether we may act for a user, by the cluster's rules for proxy users."""
    try:
        found = log_in(options, authority)
    except CompactorError as error:
        yield Finding(
            level=Level.FAIL, subject="proxy user", found=str(error), wanted="to act for whom applications run as"
        )
        return
    yield ok("proxy user", f"{found.cluster} lets us act for {found.user!r}")


def _findings(options: StoreOptions, authority: str) -> Iterator[Finding]:
    try:
        found = log_in(options, authority)
    except CompactorError as error:
        yield Finding(
            level=Level.FAIL, subject="log-in", found=str(error), wanted=f"a log-in that hdfs://{authority} takes"
        )
        return
    yield _tickets(found)
    if abs(found.clock_ahead_s) > _SKEW_S:
        yield Finding(
            level=Level.WARN,
            subject="clock of HDFS",
            found=f"{found.cluster} is {found.clock_ahead_s:+.0f} s from this machine",
            wanted="clocks that agree: Kerberos takes nobody whose clock differs by five minutes",
            fix="set both by NTP",
        )


def _tickets(found: LogIn) -> Finding:
    said = f"{found.cluster} knows us as {found.user!r}, {found.how}"
    if found.tickets is None:
        return ok("log-in", said)
    said = f"{said}, as {found.tickets.principal}"
    if found.keytab is not None:
        return ok("log-in", f"{said}; each log-in gets tickets for {_period(found.tickets.seconds)}")
    return Finding(
        level=Level.WARN if found.tickets.seconds < _DAY_S else Level.OK,
        subject="log-in",
        found=f"{said}; the ticket expires in {_period(found.tickets.seconds)}, and nothing here renews it",
        wanted="a service that can log in by itself",
        fix="write principal and keytab into [storage.hdfs], or have something renew the ticket cache (k5start, a timer)",
    )


def _period(seconds: float) -> str:
    return f"{seconds / 3600:.1f} h" if seconds >= 3600 else f"{seconds / 60:.0f} min"

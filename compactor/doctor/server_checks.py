"""The doctor's checks of the database servers of the metastore and of our own state."""

from __future__ import annotations

from collections.abc import Iterator

from compactor.database.engine import Database
from compactor.database.server_traits import server_traits
from compactor.site.finding import Finding, Level, ok
from compactor.site.site import Site


def check_servers(site: Site) -> Iterator[Finding]:
    """Yields findings on servers that are not in UTC, have several primaries, or are behind a pooler."""
    databases = {site.metastore.database.url: site.metastore.database}
    if site.state is not None:
        databases.setdefault(site.state.database.url, site.state.database)
    for database in databases.values():
        yield from _check_server(database)


def _check_server(database: Database) -> Iterator[Finding]:
    traits = server_traits(database)
    findings: list[Finding] = []
    if traits.zone is not None:
        findings.append(
            Finding(
                level=Level.WARN,
                subject="time zone",
                found=f"the server of {database.url} is in the zone {traits.zone}",
                wanted="a server in UTC: where clocks go back in autumn, Hive writes heartbeats that are an hour ahead "
                "in the first of two equal hours, and nobody is timed out until both are over",
                fix="set default_time_zone = '+00:00' for the server, and restart Hive's metastores and sessions",
            )
        )
    if traits.primaries is not None:
        findings.append(
            Finding(
                level=Level.WARN,
                subject="primaries",
                found=f"the server of {database.url} may be one of several that accept writes: {traits.primaries}",
                wanted="one server that accepts writes: on two of them transactions do not wait for each other's locks, and "
                "conflicting ones both commit",
                fix="let Hive and every Compactor write to one server (single-primary mode, or a proxy with one writer)",
            )
        )
    if traits.has_pooler and traits.prepares:
        findings.append(
            Finding(
                level=Level.WARN,
                subject="pooler",
                found=f"a pooler stands before the server of {database.url}, and prepare_threshold is set",
                wanted="no prepared statements behind a pooler in transaction mode, which gives each transaction another "
                "session, unless the pooler itself keeps them apart (PgBouncer's max_prepared_statements)",
                fix="remove prepare_threshold from the URL's options, or set it to None",
            )
        )
    elif traits.has_pooler:
        findings.append(ok("pooler", f"a pooler stands before the server of {database.url}; nothing is prepared"))
    yield from findings or [ok("server", f"{database.url} has one primary and a clock that is right all year")]

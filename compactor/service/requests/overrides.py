"""Settings of one table that people say to us, not to Hive: kept in our own state, no property of the table changes.

They hold for the table's name: of a table that is dropped and made anew as well.
"""

from __future__ import annotations

from compactor.errors import NotFound, Refused
from compactor.metastore.catalog.values import Table
from compactor.service.mode import must_write
from compactor.service.requests.request import parse_table
from compactor.service.site import Site
from compactor.settings.precedence import with_override, with_table
from compactor.settings.properties import canonical
from compactor.state.overrides import Override
from compactor.state.store import OwnState

PAUSED = "compactor.paused"


def override(site: Site, table: str, key: str, value: str, by: str) -> Override:
    """Keeps ``value`` for the setting ``key`` of ``db.table``, instead of what the table's own properties say.

    Raises:
        NotFound: there is no such table.
        BadSetting: the key is no setting of a table, or the value not one of its.
        Refused: the mode allows nothing, or the site keeps no state.
    """
    found, state = _may_change(site, table)
    with_override(site.settings, {key: value}, strict=True)
    made = Override(database=found.database, table=found.name, key=canonical(key), value=value.strip(), by=by)
    state.overrides.keep(site.name, made)
    return made


def remove_override(site: Site, table: str, key: str) -> Override:
    """Forgets what was kept for a setting, so that the table's own properties hold again; what it was.

    Raises:
        NotFound: there is no such table, or nothing is kept for this setting of it.
        Refused: the mode allows nothing, or the site keeps no state.
    """
    found, state = _may_change(site, table)
    kept = {one.key: one for one in state.overrides.of_table(site.name, found.database, found.name)}
    name = canonical(key)
    if name not in kept or not state.overrides.forget(site.name, found.database, found.name, name):
        raise NotFound(f"{found}: there is no override of {name}; there are: {', '.join(kept) or 'none'}")
    return kept[name]


def pause(site: Site, table: str, by: str) -> Override:
    """The initiator asks for nothing there until somebody resumes it; see ``compactor.paused``.

    Raises:
        NotFound: there is no such table.
        Refused: the mode allows nothing, or the site keeps no state.
    """
    return override(site, table, PAUSED, "true", by)


def paused(site: Site) -> frozenset[tuple[str, str]]:
    """Databases and names of the tables that are paused so."""
    if site.state is None:
        return frozenset()
    said = site.state.overrides.of_key(site.name, PAUSED)
    return frozenset((one.database, one.table) for one in said if one.value.lower() == "true")


def changeable(site: Site, database: str, table: str) -> Table:
    """The table, where its mode allows something: the mode without overrides, or none could be taken back.

    Raises:
        NotFound: there is no such table.
        Refused: the mode allows nothing.
    """
    found = site.metastore.catalog.table(database, table)
    must_write(with_table(site.settings, found.parameters, found.database_parameters), str(found))
    return found


def _may_change(site: Site, name: str) -> tuple[Table, OwnState]:
    found = changeable(site, *parse_table(name))
    if site.state is None:
        raise Refused(f"{found}: nothing can be kept of it, this metastore has no state of ours; set state_url")
    return found, site.state

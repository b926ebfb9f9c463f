"""Overrides: settings of one table that people give to us, not to Hive. They are kept in our own state, and no property of
the table changes.

They belong to the table's name, so they also apply to a table that is dropped and created again.
"""

from __future__ import annotations

from compactor.base.errors import NotFound, Refused
from compactor.metastore.catalog.values import Table
from compactor.settings.precedence import with_override, with_table
from compactor.settings.properties import canonical
from compactor.site.mode import must_write
from compactor.site.named_tables import find_table
from compactor.site.site import Site
from compactor.state.overrides import Override
from compactor.state.store import OwnState


def override(site: Site, table: str, key: str, value: str, by: str) -> Override:
    """Sets ``key`` of ``db.table`` to ``value``, in place of the table's own properties.

    Raises:
        NotFound: there is no such table.
        BadSetting: the key is not a setting of a table, or the value is not valid for it.
        Refused: the mode allows no changes, or the site keeps no state.
    """
    found, state = _may_change(site, table)
    with_override(site.settings, {key: value}, strict=True)
    made = Override(database=found.database, table=found.name, key=canonical(key), value=value.strip(), by=by)
    state.overrides.keep(site.name, made)
    return made


def remove_override(site: Site, table: str, key: str) -> Override:
    """Removes and returns the override of a setting, so that the table's own properties apply again.

    Raises:
        NotFound: there is no such table, or no override of this setting.
        Refused: the mode allows no changes, or the site keeps no state.
    """
    found, state = _may_change(site, table)
    kept = {one.key: one for one in state.overrides.of_table(site.name, found.database, found.name)}
    name = canonical(key)
    if name not in kept or not state.overrides.forget(site.name, found.database, found.name, name):
        raise NotFound(f"{found}: there is no override of {name}; there are: {', '.join(kept) or 'none'}")
    return kept[name]


def changeable(site: Site, name: str) -> Table:
    """Returns the table if its mode allows changes. Overrides of the mode do not count, or they could never be removed.

    Raises:
        NotFound: there is no such table.
        Refused: the mode allows no changes.
    """
    found = find_table(site.metastore.catalog, name)
    settings = with_table(site.settings.of_database(found.database), found.parameters, found.database_parameters)
    must_write(settings, str(found))
    return found


def _may_change(site: Site, name: str) -> tuple[Table, OwnState]:
    found = changeable(site, name)
    if site.state is None:
        raise Refused(f"{found}: overrides need our own state, and this metastore has none; set state_url")
    return found, site.state

"""Overrides: settings of one table that are kept in our own state, without a property of the table.

An override belongs to the table's name, so it also applies to a table that is dropped and created again.
"""

from __future__ import annotations

from compactor.base.errors import NotFound, Refused
from compactor.metastore.catalog.values import Table
from compactor.settings.precedence import with_override, with_table
from compactor.settings.table_properties import canonical
from compactor.site.mode import must_write
from compactor.site.named_tables import find_table
from compactor.site.site import Site
from compactor.state.state_database import OwnState
from compactor.state.stored_overrides import Override


def override(site: Site, name: str, key: str, value: str, by: str) -> Override:
    """Sets ``key`` of the table ``db.table`` to ``value``. The override wins over the table's properties.

    Raises:
        NotFound: there is no such table.
        BadSetting: the key is not a setting of a table, or the value is not valid for it.
        Refused: the mode allows no changes, or the site keeps no state.
    """
    table, state = _find_table_and_state(site, name)
    with_override(site.settings, {key: value}, strict=True)
    new_override = Override(database=table.database, table=table.name, key=canonical(key), value=value.strip(), by=by)
    state.overrides.keep(site.name, new_override)
    return new_override


def remove_override(site: Site, name: str, key: str) -> Override:
    """Removes and returns the override of a setting, so that the table's own properties apply again.

    Raises:
        NotFound: there is no such table, or no override of this setting.
        Refused: the mode allows no changes, or the site keeps no state.
    """
    table, state = _find_table_and_state(site, name)
    kept = {entry.key: entry for entry in state.overrides.of_table(site.name, table.database, table.name)}
    setting = canonical(key)
    if setting not in kept or not state.overrides.forget(site.name, table.database, table.name, setting):
        raise NotFound(f"{table}: there is no override of {setting}; there are: {', '.join(kept) or 'none'}")
    return kept[setting]


def find_changeable_table(site: Site, name: str) -> Table:
    """Returns the table if its mode allows changes.

    Overrides of the mode do not count, or they could never be removed.

    Raises:
        NotFound: there is no such table.
        Refused: the mode allows no changes.
    """
    table = find_table(site.metastore.catalog, name)
    settings = with_table(site.settings.of_database(table.database), table.parameters, table.database_parameters)
    must_write(settings, str(table))
    return table


def _find_table_and_state(site: Site, name: str) -> tuple[Table, OwnState]:
    table = find_changeable_table(site, name)
    if site.state is None:
        raise Refused(f"{table}: overrides need our own state, and this metastore has none; set state_url")
    return table, site.state

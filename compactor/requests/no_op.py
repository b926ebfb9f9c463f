"""Requests that would do nothing at all are refused at once: no worker and no application is started for them."""

from __future__ import annotations

from compactor.base.errors import Refused
from compactor.compaction.states import parse_type
from compactor.requests.request import RequestWords, entities_of
from compactor.settings.precedence import with_request
from compactor.site.named_tables import find_table
from compactor.site.site import Site, must_be_compactable
from compactor.worker.planning import NoPlan, preview_plan


def must_do_something(site: Site, words: RequestWords) -> None:
    """Checks that there is something to merge or to clean, as far as the request names one table or partition: of many,
    each is looked at by its worker.

    Raises:
        Refused: there is nothing.
        BadSetting: a property is not a setting, or not one that a request may set.
        CompactorError: it cannot be compacted.
    """
    table = find_table(site.metastore.catalog, words.table)
    with_request(site.settings_for(table), words.properties)
    must_be_compactable(table)
    entities = entities_of(site, table, words.partition)
    if len(entities) != 1:
        return
    found = preview_plan(site, site.target(entities[0], words.properties), parse_type(words.type))
    if isinstance(found, NoPlan) and found.leaves_nothing:
        raise Refused(f"{entities[0]}: {found.because}, and nothing to clean; nothing was queued")

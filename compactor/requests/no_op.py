"""Refuses requests that would do nothing, before a worker or an application is started for them."""

from __future__ import annotations

from compactor.base.errors import Refused
from compactor.compaction.states import parse_type
from compactor.requests.request import RequestWords, entities_of
from compactor.settings.precedence import with_request
from compactor.site.named_tables import find_table
from compactor.site.site import Site, must_be_compactable
from compactor.worker.planning import NoPlan, preview_plan


def must_do_something(site: Site, words: RequestWords) -> None:
    """Checks that a request for one table or partition has something to merge or to clean.

    A request for several partitions passes: each worker checks its own.

    Raises:
        Refused: there is nothing to merge or to clean.
        BadSetting: a property is not a setting, or not one that a request may set.
        CompactorError: the table or partition cannot be compacted.
    """
    table = find_table(site.metastore.catalog, words.table)
    with_request(site.settings_for(table), words.properties)
    must_be_compactable(table)
    entities = entities_of(site, table, words.partition)
    if len(entities) != 1:
        return
    preview = preview_plan(site, site.target(entities[0], words.properties), parse_type(words.type))
    if isinstance(preview, NoPlan) and preview.leaves_nothing:
        raise Refused(f"{entities[0]}: {preview.because}, and nothing to clean; nothing was queued")

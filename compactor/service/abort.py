"""Takes a compaction off the queue, or stops who works on it."""

from __future__ import annotations

import logging

from compactor.compaction.entry import Entry
from compactor.compaction.states import State
from compactor.errors import StorageError
from compactor.service import repair
from compactor.service.mode import Mode, may
from compactor.service.site import Site

log = logging.getLogger(__name__)


def abort_compaction(site: Site, entry_id: int) -> Entry:
    """The entry as it is then: aborted, or still working where its worker or the next pass has to tidy up first.

    The compaction can't commit any more once this returns. What is committing at this moment wins, and the answer says
    so.

    Raises:
        NotFound: there is no such entry in the queue.
        Refused: its result is committed, or a worker of Hive's own has it.
    """
    compactions = site.metastore.compactions
    entry = compactions.entry(entry_id)
    if entry.state is not State.WORKING:
        compactions.abort_request(entry_id)
        return compactions.entry(entry_id)
    if compactions.abort_running(entry_id) is State.WORKING and may(site.settings_of(entry.entity), Mode.COMPACT):
        try:
            repair.take_back(site, compactions.entry(entry_id), "it was aborted by a person")
        except StorageError as error:
            log.warning("%s entry %d: what its worker left stays for now: %s", entry.entity, entry_id, error)
    return compactions.entry(entry_id)

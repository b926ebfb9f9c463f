"""The open metastore of a Hive 2, before its upgrade."""

from __future__ import annotations

from dataclasses import dataclass, field

from compactor.metastore.queue.hive2_queue import Hive2
from compactor.settings.precedence import Settings
from compactor.site.other_metastores import OtherMetastores
from compactor.storage.stores import Stores


@dataclass(frozen=True, slots=True, kw_only=True)
class OldSite:
    """An open metastore of Hive 2 and its files."""

    name: str
    metastore: Hive2
    storage: Stores
    settings: Settings
    user: str
    host: str
    others: OtherMetastores = field(default_factory=OtherMetastores)

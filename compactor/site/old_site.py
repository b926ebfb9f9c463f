"""The open metastore of a Hive 2, before its upgrade."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field

from compactor.base.identities import process_user
from compactor.database.engine import open_database
from compactor.metastore.queue.hive2_queue import Hive2
from compactor.metastore.schema import detect
from compactor.metastore.schema.hive2 import hive_2_dialect
from compactor.settings.precedence import Settings
from compactor.site.deployment import Configuration, open_site, stores_of
from compactor.site.other_metastores import OtherMetastores
from compactor.site.site import Site
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


@contextmanager
def open_before_hive_3(configuration: Configuration, *, read_only: bool = True) -> Iterator[Site | OldSite]:
    """Opens the site of ``configuration``, an ``OldSite`` if its metastore is still Hive 2's.

    Raises:
        NotSupported: the schema is neither Hive 2.3's nor one that ``open_site`` accepts.
        DatabaseUnavailable: the database cannot be reached, or contains no metastore.
    """
    database = open_database(configuration.url, read_only=read_only)
    try:
        version = detect.version(database)
        if version is None or not detect.is_hive_2(version):
            with open_site(configuration, read_only=read_only) as site:
                yield site
            return
        metastore = Hive2(database, hive_2_dialect(database.kind, version, database.url))
        others = OtherMetastores(configuration.others, url=configuration.url, token=metastore.claim_token)
        with closing(others):
            yield OldSite(
                name=configuration.name,
                metastore=metastore,
                storage=stores_of(configuration),
                settings=configuration.settings,
                user=process_user(),
                host=socket.gethostname(),
                others=others,
            )
    finally:
        database.close()

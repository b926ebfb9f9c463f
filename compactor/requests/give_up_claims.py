"""Gives up claims of other tables on directories, at a person's request (PROTOCOL 11.13)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from compactor.initiator.initiator import look_again
from compactor.site.directory_claims import ForeignClaim
from compactor.site.mode import must_write
from compactor.site.named_tables import find_table
from compactor.site.site import Site, claims_of, path_of


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimOnTable:
    """A claim of another table on a directory of ``table``."""

    table: str
    foreign: ForeignClaim

    @property
    def name(self) -> str:
        return self.foreign.claim.name

    @property
    def directory(self) -> str:
        return self.foreign.directory

    @property
    def owner(self) -> str:
        return self.foreign.owner

    @property
    def path(self) -> str:
        return self.foreign.path

    def to_json(self) -> dict[str, object]:
        return {"table": self.table, "claim": self.name, "directory": self.directory, "owner": self.owner}


def foreign_claims(site: Site, name: str | None) -> list[ClaimOnTable]:
    """Returns foreign claims on and around the directories of a table, or of all transactional tables.

    Raises:
        NotFound: there is no such table.
        StorageError: a directory cannot be listed.
    """
    site = site.for_a_pass()
    catalog, claims = site.metastore.catalog, claims_of(site)
    tables = [find_table(catalog, name)] if name is not None else [t for t in catalog.tables() if t.is_transactional]
    by_path: dict[str, ClaimOnTable] = {}
    for table in tables:
        for partition in catalog.partitions(table) if table.partition_keys else [None]:
            for foreign in claims.foreign(table, path_of(site.storage, table, partition)):
                by_path.setdefault(foreign.path, ClaimOnTable(table=str(table), foreign=foreign))
    return list(by_path.values())


def give_up(site: Site, chosen: Sequence[ClaimOnTable]) -> None:
    """Removes claims by a person's ruling.

    Raises:
        Refused: the mode is observe.
        StorageError: a claim cannot be removed.
    """
    must_write(site.settings, f"metastore {site.name}")
    claims = claims_of(site)
    for claim in chosen:
        claims.give_up(claim.foreign)
    if chosen:
        look_again(site)

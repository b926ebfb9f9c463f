"""A person gives up claims of other tables on directories (PROTOCOL 11.13)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from compactor.initiator.initiator import look_again
from compactor.site.directory_claims import ForeignClaim
from compactor.site.mode import must_write
from compactor.site.named_tables import find_table
from compactor.site.site import Site, claims_of, path_of


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimFound:
    """A claim of somebody else on a directory of ``table``."""

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


def foreign_claims(site: Site, table: str | None) -> list[ClaimFound]:
    """Returns the claims of others on the directories of a table, or of every transactional table, and around them.

    Raises:
        NotFound: there is no such table.
        StorageError: a directory cannot be listed.
    """
    site = site.for_a_pass()
    catalog, claims = site.metastore.catalog, claims_of(site)
    tables = [find_table(catalog, table)] if table is not None else [t for t in catalog.tables() if t.is_transactional]
    found: dict[str, ClaimFound] = {}
    for one in tables:
        for partition in catalog.partitions(one) if one.partition_keys else [None]:
            for foreign in claims.foreign(one, path_of(site.storage, one, partition)):
                found.setdefault(foreign.path, ClaimFound(table=str(one), foreign=foreign))
    return list(found.values())


def give_up(site: Site, chosen: Sequence[ClaimFound]) -> None:
    """Removes claims, as a person has ruled.

    Raises:
        Refused: the mode is observe.
        StorageError: one cannot be removed.
    """
    must_write(site.settings, f"metastore {site.name}")
    claims = claims_of(site)
    for one in chosen:
        claims.give_up(one.foreign)
    if chosen:
        look_again(site)

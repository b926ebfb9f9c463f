"""Claims of tables on directories: hidden files for metastores that do not know each other.

See PROTOCOL 11.13.

The name of a claim identifies its metastore and table, so a listing is enough to find it. Its content is for people.
"""

from __future__ import annotations

import json
import logging
import math
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from compactor import __version__
from compactor.acid.names import CLAIM_PREFIX, DirectoryClaim, parse_claim
from compactor.base.errors import AccessDenied, BadFile, CompactorError, Disagreement, StorageError
from compactor.base.printable import printable
from compactor.base.steps import Step, reach

if TYPE_CHECKING:
    from compactor.acid.listing import Listing
    from compactor.metastore.catalog.locations import Locations
    from compactor.metastore.catalog.values import Table
    from compactor.metastore.claim_token import ClaimToken
    from compactor.storage.protocol import Storage

log = logging.getLogger(__name__)
_CONTENT_BYTES = 4096  #: the part of a claim's content that is read
_SHOWN = 200  #: the most characters shown of a name in a claim
FRESH_S = 10.0  #: seconds for which programs, and whoever makes a claim, reuse the claims around a table
_MOST_AROUND = 10_000  #: the most directories whose claims are kept


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignClaim:
    """A claim of another table on ``directory``, with the owner that its content names."""

    directory: str
    claim: DirectoryClaim
    owner: str

    @property
    def path(self) -> str:
        return f"{self.directory.removesuffix('/')}/{self.claim.name}"


class _Around:
    """A directory around tables: the names of its claims, and when it was listed (``time.monotonic``)."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.names: tuple[str, ...] | None = None
        self.listed_at = 0.0


class ClaimsAround:
    """The claims in directories around tables.

    Args:
        fresh_s: seconds after which a directory is listed again; a pass lists each once.
    """

    def __init__(self, fresh_s: float = math.inf) -> None:
        self._fresh_s = fresh_s
        self._directories: dict[str, _Around] = {}

    def names(self, storage: Storage, directory: str, fresh_s: float = math.inf) -> tuple[str, ...]:
        """Returns the names of the claims in ``directory``; none if this user may not list it.

        Args:
            fresh_s: seconds after which this caller wants it to be listed again.

        Raises:
            StorageError: it cannot be listed for any other reason.
        """
        if len(self._directories) >= _MOST_AROUND and self._fresh_s < math.inf:
            self._directories = {}
        around = self._directories.setdefault(directory, _Around())
        with around.lock:  # one lock per directory, so that a hanging store blocks nobody else
            now = time.monotonic()
            if around.names is None or now - around.listed_at > min(fresh_s, self._fresh_s):
                names: tuple[str, ...] = ()
                with suppress(AccessDenied):
                    names = storage.children(directory, CLAIM_PREFIX)
                around.names, around.listed_at = tuple(name for name in names if parse_claim(name)), now
            return around.names


class DirectoryClaims:
    """The claims on directories of the tables of one metastore.

    Args:
        metastore: its name, which claims show to people.
        around: the listed claims around tables.
    """

    def __init__(
        self,
        metastore: str,
        token: ClaimToken,
        locations: Locations,
        storage: Storage,
        around: ClaimsAround | None = None,
    ) -> None:
        self._metastore = metastore
        self._token = token
        self._locations = locations
        self._storage = storage
        self._around = around or ClaimsAround()
        self._own: str | None = None

    def must_be_free(self, table: Table, location: str, listing: Listing) -> None:
        """Checks that no other table claims ``location``, a listed directory, or a directory inside it.

        Raises:
            Disagreement: another table does.
        """
        self.must_be_free_by_names(table, location, _claims_of(listing))

    def must_be_free_by_names(self, table: Table, location: str, names: Iterable[str]) -> None:
        """Checks the same by names of a listing, which may be relative paths."""
        for foreign in self._foreign(table, location, names):
            raise Disagreement(_sentence(table, foreign))

    def must_be_free_in_and_around(self, table: Table, location: str, names: Iterable[str] | None = None) -> None:
        """Checks that no other table claims ``location``, and none of another metastore a directory around it.

        Args:
            names: the names in ``location``; without them it is listed.

        Raises:
            Disagreement: another table does.
            StorageError: a directory cannot be listed.
        """
        self.must_be_free_above(table, location)
        self.must_be_free_by_names(table, location, self._storage.children(location) if names is None else names)

    def must_be_free_above(self, table: Table, location: str, fresh_s: float = math.inf) -> None:
        """Checks that no table of another metastore claims a directory around ``location``.

        Each is listed once. A directory that this user may not list is skipped.

        Args:
            fresh_s: seconds after which a directory is listed again.

        Raises:
            Disagreement: another table does.
            StorageError: a directory cannot be listed for any other reason; the next call tries again.
        """
        for foreign in self._foreign_above(table, location, fresh_s):
            raise Disagreement(_sentence(table, foreign))

    def must_be_free_everywhere(self, table: Table, location: str) -> None:
        """Checks that no other table claims ``location``, a directory around it, or any inside it.

        Raises:
            Disagreement: another table does.
            StorageError: a directory cannot be listed.
        """
        self.must_be_free_above(table, location)
        self.must_be_free_by_names(table, location, self._claims_inside(location))

    def must_be_free_of_others(self, what: str, location: str, names: Iterable[str] | None = None) -> None:
        """Checks that no other metastore claims ``location`` or a directory around it.

        No table of ours is there.

        Args:
            what: names the table of ours that was there, or will be.
            names: the names in ``location``; without them it is looked through, however deep.

        Raises:
            Disagreement: another metastore does.
            StorageError: a directory cannot be listed.
        """
        inside = self._claims_inside(location) if names is None else names
        above = ((directory, self._around.names(self._storage, directory)) for directory in _parents(location))
        for directory, listed in ((location, inside), *above):
            for name in listed:
                folder, _, last = name.rpartition("/")
                claim = parse_claim(last)
                if claim is not None and claim.token != self._own_token():
                    claimed = f"{directory}/{folder}" if folder else directory
                    raise Disagreement(
                        f"{what}: {claimed} is claimed by {self._describe_owner(claimed, claim)}: {claim.name}. Nothing is "
                        f"written or removed there. Choose another directory; if {what} was dropped, remove by hand what "
                        "you know to be left of it"
                    )

    def _claims_inside(self, location: str) -> list[str]:
        """Returns the paths of all claims in ``location``, however deep; none if it does not exist."""
        return [] if self._storage.anchor(location) is None else _claims_of(self._storage.listing(location))

    def take(self, table: Table, location: str, listing: Listing) -> None:
        """Claims ``location`` for ``table``, before anything is staged there for the first time.

        Raises:
            Disagreement: another table claimed it meanwhile.
            StorageError: the claim cannot be written.
        """
        path = self.write(table, location, listing)
        if path is not None:
            self.confirm(table, location, self._storage.sync([path]).get(path))

    def write(self, table: Table, location: str, listing: Listing) -> str | None:
        """Writes the claim of ``table`` on ``location``, not yet durable, unless ``listing`` shows it.

        The caller makes it durable, perhaps together with others, and then calls ``confirm`` before anything is staged.

        Returns:
            the path of the claim; None if it was listed.

        Raises:
            StorageError: the claim cannot be written.
        """
        if self._own is None:
            self._own = self._token.get_or_create()
        own = DirectoryClaim(token=self._own, table_id=table.id)
        if own.name in listing.claims:
            return None
        content = {"metastore": self._metastore, "table": str(table), "by": f"Compactor {__version__}"}
        path = f"{location}/{own.name}"
        try:
            self._storage.write(path, json.dumps(content, indent=1).encode())
        except StorageError:
            if not self._storage.exists(path):  # otherwise another worker of this metastore has written it
                raise
        return path

    def confirm(self, table: Table, location: str, error: StorageError | None) -> None:
        """Lists ``location`` again after the claim of ``table`` was written there.

        Args:
            error: the reason why the claim could not be made durable, if there is one; it is raised.

        Raises:
            Disagreement: another table claimed it meanwhile. The claim is taken away again.
            StorageError: the claim is not durable, or the directory cannot be listed.
        """
        assert self._own is not None  # the claim was written
        own = DirectoryClaim(token=self._own, table_id=table.id)
        path = f"{location}/{own.name}"
        try:
            if error is not None:
                raise error
            listing = self._storage.listing(location)
            self.must_be_free(table, location, listing)
            self.must_be_free_above(table, location, FRESH_S)
        except CompactorError:
            self._storage.remove(path, durable=False)  # if two tables claim at once, both stop
            raise
        reach(Step.DIRECTORY_CLAIMED)
        for name in listing.claims:
            if name != own.name:
                log.warning("%s: the claim %s/%s is of a table that was dropped; it is removed", table, location, name)
                self._storage.remove(f"{location}/{name}", durable=False)

    def foreign(self, table: Table, location: str) -> list[ForeignClaim]:
        """Returns every claim on, inside or around ``location`` that forbids compactions of ``table`` there."""
        names: list[str] = []
        with suppress(BadFile):  # nothing is there
            listing = self._storage.listing(location)
            names = _claims_of(listing)
        return [*self._foreign(table, location, names), *self._foreign_above(table, location)]

    def give_up(self, foreign: ForeignClaim) -> None:
        """Removes a claim by a person's ruling."""
        self._storage.remove(foreign.path)
        log.warning("%s: the claim of %s was given up by a person's ruling", foreign.path, foreign.owner)

    def _own_token(self) -> str | None:
        """Returns the token of this metastore, which is read once; None while it has none."""
        if self._own is None:
            self._own = self._token.read()
        return self._own

    def _foreign_above(self, table: Table, location: str, fresh_s: float = math.inf) -> Iterator[ForeignClaim]:
        for directory in _parents(location):
            for foreign in self._foreign(table, directory, self._around.names(self._storage, directory, fresh_s)):
                if foreign.claim.token != self._own_token():  # locations of our own tables are compared elsewhere
                    yield foreign

    def _foreign(self, table: Table, location: str, names: Iterable[str]) -> Iterator[ForeignClaim]:
        for name in names:
            folder, _, last = name.rpartition("/")
            claim = parse_claim(last)
            if claim is None:
                continue
            is_ours = claim.token == self._own_token()
            if is_ours and claim.table_id == table.id:
                continue
            directory = f"{location}/{folder}" if folder else location
            if not is_ours:
                yield ForeignClaim(directory=directory, claim=claim, owner=self._describe_owner(directory, claim))
            elif (other := self._locations.name_of(claim.table_id)) is not None:  # otherwise it was dropped
                owner = f"table {other} (id {claim.table_id}) of this metastore"
                yield ForeignClaim(directory=directory, claim=claim, owner=owner)

    def _describe_owner(self, directory: str, claim: DirectoryClaim) -> str:
        """Returns the owner that a claim's content names.

        Anybody who may write in the directory can write the content.
        """
        by_id = f"table with id {claim.table_id} of the metastore with token {claim.token[:8]}…"
        with suppress(CompactorError, ValueError, KeyError, TypeError, RecursionError):
            path = f"{directory.removesuffix('/')}/{claim.name}"
            content = json.loads(self._storage.read_range(path, 0, _CONTENT_BYTES))
            name, metastore = (printable(str(content[key]))[:_SHOWN] for key in ("table", "metastore"))
            return f"table {name!r} of metastore {metastore!r}, by its claim ({by_id})"
        return by_id


def _sentence(table: Table, foreign: ForeignClaim) -> str:
    return (
        f"{table}: {foreign.directory} is claimed by {foreign.owner}: {foreign.claim.name}. Two tables that are compacted "
        "in one directory lose each other's rows, so nothing is compacted or removed there. Move one of them. If the "
        "directory is a copy of the other table's, or that table is gone, give its claim up: "
        f"`compactor claims {table} --give-up {foreign.claim.name} --yes`"
    )


def _claims_of(listing: Listing) -> list[str]:
    """Returns the paths of the claims in a listed directory, however deep."""
    return [*listing.claims, *(file.path for file in listing.files if parse_claim(file.name) is not None)]


def _parents(location: str) -> Iterator[str]:
    """Yields the directories around a path, from its parent to the root: a bucket, a cluster or ``/``."""
    scheme, separator, rest = location.rpartition("://")
    while "/" in rest:
        rest = rest.rpartition("/")[0]
        yield f"{scheme}{separator}{rest}" or "/"

"""The site that every pass works on: one open metastore with its state, storage and settings."""

from __future__ import annotations

import socket
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from compactor import __version__
from compactor.base.errors import DatabaseUnavailable, NotFound, Refused
from compactor.base.identities import PREFIX, holder_id, process_user
from compactor.compaction.pool_policy import DEFAULT, POOL, PoolPolicy, settings_at
from compactor.locking.lock_types import LockRequest, LockType
from compactor.metastore.catalog.read import no_partition
from compactor.metastore.schema.detect import BY_WRITE_IDS
from compactor.settings.precedence import Settings, with_off_peak, with_override, with_request, with_table
from compactor.site.directory_claims import FRESH_S, ClaimsAround, DirectoryClaims
from compactor.site.other_metastores import OtherMetastores
from compactor.site.overlapping_locations import Ground

if TYPE_CHECKING:
    from compactor.acid.write_ids import ValidTxnList, ValidWriteIdList
    from compactor.base.ids import TxnId
    from compactor.compaction.queue_entry import Entity, Entry
    from compactor.metastore.catalog.values import Partition, PartitionPlace, Table
    from compactor.metastore.metastore import Metastore
    from compactor.site.mark_files import MarkFiles
    from compactor.state.state_database import OwnState
    from compactor.storage.protocol import Storage

VERSION = f"{PREFIX}{__version__}"  #: CQ_WORKER_VERSION
HISTORY_BY_WRITE_IDS = "hive.txn.use.minhistorywriteid"
PAUSED = "compactor.paused"  #: the setting by which a person pauses a table for the initiator


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """An open metastore with its state, storage and settings.

    ``state`` is None if we may not store anything (mode observe without a state_url). ``memory`` is None if no place outside
    of the metastore's database is configured.
    """

    name: str
    metastore: Metastore
    state: OwnState | None
    storage: Storage
    settings: Settings
    user: str
    host: str
    pools: Mapping[str, PoolPolicy] = field(default_factory=dict)  #: the policy of each pool, by its name
    memory: MarkFiles | None = None
    ground: Ground | None = None  #: set for one pass; otherwise it is read each time
    claims: DirectoryClaims | None = None  #: set for one pass, like ``ground``
    others: OtherMetastores = field(default_factory=OtherMetastores)  #: the other metastores in the configuration
    catalogs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  #: the properties of Iceberg catalogs
    claims_around: ClaimsAround = field(default_factory=lambda: ClaimsAround(FRESH_S))  #: for programs' transactions

    @classmethod
    def here(
        cls,
        name: str,
        metastore: Metastore,
        state: OwnState | None,
        storage: Storage,
        settings: Settings,
        pools: Mapping[str, PoolPolicy] | None = None,
        memory: MarkFiles | None = None,
        others: OtherMetastores | None = None,
        catalogs: Mapping[str, Mapping[str, str]] | None = None,
    ) -> Site:
        """Returns the site as this process and its user see it.

        Values for which the metastore's schema has no columns go into ``state``. Such a metastore needs a state for every
        change of its queue.
        """
        if state is not None:
            metastore.queue.set_extra_columns(state.kept_columns(name))
        return cls(
            name=name,
            metastore=metastore,
            state=state,
            storage=storage,
            settings=settings,
            user=process_user(),
            host=socket.gethostname(),
            pools=dict(pools or {}),
            memory=memory,
            others=others or OtherMetastores(),
            catalogs=dict(catalogs or {}),
        )

    def for_a_pass(self) -> Site:
        """Returns the site for one pass, which reads the locations of all tables once (PROTOCOL 11.13)."""
        return replace(self, ground=new_ground(self), claims=_new_claims(self))

    def for_a_transaction(self) -> Site:
        """Returns the site for one transaction of a program. Claims around its tables may be some seconds old."""
        claims = DirectoryClaims(
            self.name, self.metastore.claim_token, self.metastore.locations, self.storage, self.claims_around
        )
        return replace(self, ground=new_ground(self), claims=claims)

    def identity(self, role: str) -> str:
        """Returns a new unique id for one holder of work."""
        return holder_id(role, self.host)

    def target(self, entity: Entity, request: Mapping[str, str] | None = None) -> Target:
        """Returns the table that ``entity`` names, with its partition if it has any.

        Raises:
            NotFound: it does not exist.
            Refused: a partitioned table without a partition, or the reverse.
        """
        return Targets(self, [entity]).target(entity, request)

    def settings_of(self, entity: Entity) -> Settings:
        """Returns the table's settings over the site's, even if the rest of ``entity`` is invalid."""
        try:
            of_table, of_database = self.metastore.catalog.parameters(entity.database, entity.table)
        except NotFound:
            return self.settings.of_database(entity.database)
        return self._of_table(entity.database, entity.table, of_table, of_database)

    def settings_for(self, table: Table, moment: Moment | None = None) -> Settings:
        """Returns the table's present settings.

        In order of precedence: its overrides in our state, its own parameters, its database's, those of its pool at this
        hour, and the site's. With ``moment``, the clock and the overrides are not read again.
        """
        return self._of_table(table.database, table.name, table.parameters, table.database_parameters, moment)

    def _of_table(
        self,
        database: str,
        table: str,
        of_table: Mapping[str, str],
        of_database: Mapping[str, str],
        moment: Moment | None = None,
    ) -> Settings:
        settings = with_table(self.settings.of_database(database), of_table, of_database)
        if self.state is not None and moment is not None:
            settings = with_override(settings, moment.overrides.get((database, table), {}))
        elif self.state is not None:
            kept = self.state.overrides.of_table(self.name, database, table)
            settings = with_override(settings, {override.key: override.value for override in kept})
        policy = self.pools.get(settings.text(POOL) or DEFAULT)
        if policy is None or not policy.off_peak:
            return settings
        return with_off_peak(settings, settings_at(policy, self.now(policy, moment)))

    def now(self, policy: PoolPolicy, moment: Moment | None = None) -> datetime:
        """Returns the database's time, or that of ``moment``, in the pool's time zone."""
        now_ms = self.metastore.now_ms() if moment is None else moment.now_ms
        return datetime.fromtimestamp(now_ms / 1000, UTC).astimezone(ZoneInfo(policy.time_zone))

    def moment(self) -> Moment:
        """Reads what the settings of all tables depend on in addition to their properties."""
        overrides = {} if self.state is None else self.state.overrides.everything(self.name)
        return Moment(now_ms=self.metastore.now_ms(), overrides=overrides)

    @property
    def goes_by_write_ids(self) -> bool:
        """True if MIN_HISTORY_WRITE_ID says what transactions may read: by the setting, else the schema."""
        if self.settings.source(HISTORY_BY_WRITE_IDS) == "default":
            return self.metastore.schema_version in BY_WRITE_IDS
        return self.settings.boolean(HISTORY_BY_WRITE_IDS)

    def stamps_early(self, entry: Entry) -> bool:
        """Returns true if CQ_NEXT_TXN_ID may leave out transactions that do not see the compaction.

        Hive 4.2 reads the newest transaction, then commits. Without TXN_LOCK_TBL, others can open in between (Hive's
        ``CommitTxnFunction``).
        """
        may = self.goes_by_write_ids and self.metastore.schema_version in BY_WRITE_IDS
        return may and not (entry.worker_version or "").startswith(PREFIX)

    def lowest_open(self) -> TxnId:
        """Returns the cleaner's gate: every transaction below it has ended (PROTOCOL 7.1)."""
        return self.metastore.transactions.lowest_open(self.settings.milliseconds("hive.txn.opentxn.timeout"))

    def write_ids(self, table: Table, txns: ValidTxnList) -> ValidWriteIdList:
        return self.metastore.write_ids.valid(table.database, table.name, txns)


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """The database's clock and the overrides by database and table, read once for many tables."""

    now_ms: int
    overrides: Mapping[tuple[str, str], Mapping[str, str]]


def own_state(site: Site) -> OwnState:
    """Returns our own state, for work that needs it.

    Raises:
        DatabaseUnavailable: this metastore has no state.
    """
    if site.state is None:
        raise DatabaseUnavailable(
            f"metastore {site.name}: this needs our own state and none is configured; set state_url"
        )
    return site.state


def paused_tables(site: Site) -> frozenset[tuple[str, str]]:
    """Returns the databases and names of the tables that are paused by an override."""
    if site.state is None:
        return frozenset()
    overrides = site.state.overrides.of_key(site.name, PAUSED)
    return frozenset((override.database, override.table) for override in overrides if override.value.lower() == "true")


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A table or partition to compact or clean.

    ``settings`` are those of the table (and the request) over the site's.
    """

    entity: Entity
    table: Table
    partition: Partition | None
    location: str
    settings: Settings

    @property
    def row_type(self) -> str:
        return self.table.row_type

    @property
    def place(self) -> tuple[int, int | None, str]:
        """Ids of table and partition, and the location: they differ once the table was replaced or moved."""
        return self.table.id, self.partition.id if self.partition else None, self.location

    @property
    def stored_place(self) -> tuple[int, int | None, str]:
        """The same with the location as the metastore spells it; see ``Catalog.place``."""
        location = self.partition.location if self.partition else self.table.location
        return self.table.id, self.partition.id if self.partition else None, location

    def lock(self, kind: LockType) -> LockRequest:
        return LockRequest(
            database=self.entity.database, table=self.entity.table, partition=self.entity.partition, type=kind
        )


def path_of(storage: Storage, table: Table, partition: PartitionPlace | None) -> str:
    """Returns the path of a directory of a table or partition.

    Below a table, no link is followed to a partition.
    """
    if partition is None:
        return storage.resolve(table.location)
    return storage.resolve(partition.location, within=table.location)


class Targets:
    """The targets of several entities, read together: each table once, with all its named partitions."""

    def __init__(self, site: Site, entities: Iterable[Entity]) -> None:
        self._site = site
        self._names: dict[tuple[str, str], list[str]] = defaultdict(list)
        for entity in entities:
            named = self._names[entity.database, entity.table]
            if entity.partition is not None:
                named.append(entity.partition)
        self._read: dict[tuple[str, str], tuple[Table, Settings, dict[str, Partition]]] = {}

    def target(self, entity: Entity, request: Mapping[str, str] | None = None) -> Target:
        """See ``Site.target``."""
        table, settings, partitions = self._table(entity)
        partition = None
        if entity.partition is not None:
            partition = partitions.get(entity.partition)
            if partition is None:
                raise no_partition(table, entity.partition)
        elif table.partition_keys:
            raise Refused(f"{entity}: the table is partitioned; name the partition to compact")
        if request:
            settings = with_request(settings, request, strict=False)
        location = path_of(self._site.storage, table, partition)
        return Target(entity=entity, table=table, partition=partition, location=location, settings=settings)

    def _table(self, entity: Entity) -> tuple[Table, Settings, dict[str, Partition]]:
        key = (entity.database, entity.table)
        if key not in self._read:
            catalog = self._site.metastore.catalog
            table = catalog.table(*key)
            settings = self._site.settings_for(table)
            partitions = catalog.partitions(table, self._names[key]) if self._names[key] else []
            self._read[key] = table, settings, {partition.name: partition for partition in partitions}
        return self._read[key]


def must_be_compactable(table: Table, partition: Partition | None = None) -> None:
    """Refuses tables that are never touched, such as external ones; see ``Table.refusal``.

    Raises:
        Refused: the table, or this partition of it, is one of them.
    """
    if (why := table.refusal(partition)) is not None:
        raise Refused(why)


def must_have_its_own_ground(site: Site, table: Table, partition: PartitionPlace | None) -> None:
    """Refuses a table or partition whose directory overlaps another's.

    Raises:
        Refused: it does.
    """
    if (why := ground_of(site).refusal_of(table, partition)) is not None:
        raise Refused(why)


def must_lie_in_no_other(site: Site, target: Target, location: str | None = None) -> None:
    """Refuses a target whose directory overlaps another table's, or lies in a claimed directory.

    The caller checks the claims in the directory itself, once it has listed it.

    Args:
        location: another directory of the target; by default its location.

    Raises:
        Refused: a table of this metastore has an overlapping directory.
        Disagreement: a table of another metastore claims a directory around it.
        StorageError: a directory cannot be listed.
    """
    must_have_its_own_ground(site, target.table, target.partition)
    claims_of(site).must_be_free_above(target.table, location or target.location)


def must_lie_alone(site: Site, target: Target, location: str | None = None, names: Iterable[str] | None = None) -> None:
    """Checks the same, and that no other table claims the directory itself.

    A name of ours in it may be another metastore's, as both count their transactions from 1.

    Args:
        names: the names in the directory; without them it is listed.
    """
    must_have_its_own_ground(site, target.table, target.partition)
    claims_of(site).must_be_free_in_and_around(target.table, location or target.location, names)


def ground_of(site: Site) -> Ground:
    """Returns the locations of all tables: those that the pass has read, otherwise read when needed."""
    return site.ground or new_ground(site)


def new_ground(site: Site) -> Ground:
    """Returns the locations of all tables, not read yet."""
    return Ground(site.metastore.locations, site.storage, site.others)


def claims_of(site: Site) -> DirectoryClaims:
    """Returns the claims on directories: those that the pass has read, otherwise read when needed."""
    return site.claims or _new_claims(site)


def _new_claims(site: Site) -> DirectoryClaims:
    return DirectoryClaims(site.name, site.metastore.claim_token, site.metastore.locations, site.storage)

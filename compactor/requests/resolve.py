"""Ends doubts about directories by a person's rulings (PROTOCOL 11.1, 11.4).

Kept directories get a name that this metastore can have given, and its counters are raised above their write IDs. What is
quarantined is renamed within the table to a name that every reader skips, and nothing of ours removes it.
"""

from __future__ import annotations

import enum
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from compactor.acid.names import Base, Delta, known_directory, parse_directory, set_aside_name
from compactor.base.errors import Refused
from compactor.base.ids import TxnId, WriteId
from compactor.base.steps import CommandStep, reach
from compactor.compaction.disagreement import DoubtKind
from compactor.compaction.entry import Entity
from compactor.initiator.initiator import look_again
from compactor.metastore.catalog.values import Table
from compactor.metastore.transactions.transaction_rows import TxnType
from compactor.requests.in_doubt import InDoubt, by_entity, in_doubt, in_doubt_at
from compactor.site.exclusive import exclusively
from compactor.site.mode import must_write
from compactor.site.restored_database import restore_claim_token
from compactor.site.site import Site, claims_of, must_have_its_own_ground

log = logging.getLogger(__name__)
#: The doubts that end when the name gets the number of a compaction that committed in this metastore.
_RENAMED = frozenset(set(DoubtKind) - {DoubtKind.WRITE_ID})


class Ruling(enum.Enum):
    """A person's decision about a directory."""

    KEEP = "keep"  #: its rows are right, and readers get them
    QUARANTINE = "quarantine"  #: readers and roles no longer see it; a person removes it


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """One directory with its ruling, and the name that it has now."""

    doubt: InDoubt
    ruling: Ruling
    name: str

    def to_json(self) -> dict[str, object]:
        return {**self.doubt.to_json(), "ruling": self.ruling.value, "name": self.name}


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolution:
    """The result of one call: the directories, and the table's next write ID from now on."""

    directories: tuple[Resolved, ...]
    next_write_id: WriteId

    def to_json(self) -> dict[str, object]:
        return {"directories": [one.to_json() for one in self.directories], "next_write_id": self.next_write_id}


def resolve(site: Site, table: Table, rulings: Mapping[str, Ruling]) -> Resolution:
    """Carries out ``rulings``, by ``InDoubt.path``, on every directory of ``table`` that is in doubt.

    Each partition is locked exclusively meanwhile. If it fails half-way, a second call goes on from there.

    Raises:
        Refused: a directory has no ruling, a kept one cannot be read, or the halves of one compaction differ; or the
            mode is observe. Nothing was changed.
        LockNotGranted: a partition is being read or written.
        Disagreement: other directories are in doubt than before.
    """
    must_write(site.settings_for(table), str(table))
    site = site.for_a_pass()
    found = in_doubt(site, table)
    must_be_ruled(found, rulings)
    restore_claim_token(site)
    for here in by_entity(found).values():
        _must_have_no_twins(site, here, rulings)
    _abort_lost(site, found)
    done = _all_set_aside(site, [one for one in found if rulings[one.path] is Ruling.QUARANTINE])
    for entity, here in by_entity(one for one in found if rulings[one.path] is Ruling.KEEP).items():
        with _held(site, entity, here):
            done += _keep(site, here)
    _raise_write_ids(site, table, done)
    look_again(site, table)
    return Resolution(directories=tuple(done), next_write_id=site.metastore.write_ids.next(table.database, table.name))


def quarantine(site: Site, found: Iterable[InDoubt]) -> list[Resolved]:
    """Sets directories aside; see ``resolve``."""
    chosen, site = list(found), site.for_a_pass()
    _abort_lost(site, chosen)
    return _all_set_aside(site, chosen)


def _all_set_aside(site: Site, chosen: Iterable[InDoubt]) -> list[Resolved]:
    """Sets directories aside before any is kept: that gives numbers, and one with such a number would count."""
    done: list[Resolved] = []
    for entity, here in by_entity(chosen).items():
        with _held(site, entity, here):
            done += [_set_aside(site, one) for one in here]
    return done


def must_be_ruled(found: Sequence[InDoubt], rulings: Mapping[str, Ruling]) -> None:
    """Checks that ``rulings`` decide about every directory, and that each of them can be carried out.

    Raises:
        Refused: they do not, or one cannot.
    """
    if missing := [one.path for one in found if one.path not in rulings]:
        raise Refused(
            f"{', '.join(missing)}: in doubt and without a ruling; nothing was changed; keep or quarantine each of them"
        )
    for one in found:
        if rulings[one.path] is Ruling.KEEP and one.unreadable is not None:
            raise Refused(
                f"{one.location}/{one.name}: cannot be kept, for readers could not read it: {one.unreadable}; nothing was "
                "changed; quarantine it, or put the file right"
            )
    halves: dict[tuple[Entity, object], tuple[str, Ruling]] = {}
    for one in found:
        other, ruling = halves.setdefault((one.entity, _compaction(one)), (one.path, rulings[one.path]))
        if ruling is not rulings[one.path]:
            raise Refused(
                f"{other} and {one.path}: are the halves of one compaction, and only one of them is to be kept; nothing was "
                "changed; decide the same about both"
            )


def _must_have_no_twins(site: Site, here: Sequence[InDoubt], rulings: Mapping[str, Ruling]) -> None:
    """Refuses to keep a compaction's delta where another one of its range stays: Trino would show each of their rows twice
    (PROTOCOL 6). ``here`` are the directories in doubt of one partition."""
    aside = {one.name for one in here if rulings[one.path] is Ruling.QUARANTINE}
    staying = [name for name in site.storage.children(here[0].location) if name not in aside]
    for one in here:
        twin = next((name for name in staying if _are_twins(one.name, name)), None)
        if one.name not in aside and twin is not None:
            raise Refused(
                f"{one.path}: holds the same write IDs as {twin} beside it, and readers without visibility would show their "
                "rows twice; nothing was changed; quarantine one of them, or wait until a cleaner has removed the other"
            )


def _are_twins(output: str, other: str) -> bool:
    """Returns true if ``output`` is a compaction's delta, and ``other`` another delta of exactly its range."""
    one, two = known_directory(output), known_directory(other)
    if output == other or not isinstance(one, Delta) or not isinstance(two, Delta) or not one.visibility_txn_id:
        return False
    return replace(two, visibility_txn_id=one.visibility_txn_id) == one


def _compaction(one: InDoubt) -> object:
    """Returns what the delta and the delete delta of one minor compaction share; every other directory is alone."""
    acid = parse_directory(one.name)
    if isinstance(acid, Delta) and acid.visibility_txn_id:
        return acid.min_write_id, acid.max_write_id, acid.visibility_txn_id
    return one.name


def _abort_lost(site: Site, found: Iterable[InDoubt]) -> None:
    """Aborts the lost compactions whose outputs are in doubt: their locks would keep everybody from the table.

    No output is hidden with that, and a worker that was only suspended can no longer commit.
    """
    for txn in {doubt.number for one in found for doubt in one.doubts if doubt.kind is DoubtKind.ONLY_COPY}:
        site.metastore.transactions.abort(TxnId(txn), "compaction worker lost, its output decided by a person")


@contextmanager
def _held(site: Site, entity: Entity, expected: Sequence[InDoubt]) -> Iterator[None]:
    """Holds ``entity`` exclusively, while the directories in doubt there are exactly those that were ruled on.

    Raises:
        LockNotGranted: it is in use.
        Refused: others are in doubt by now, or the directories may be another table's.
    """
    target = site.target(entity)
    must_have_its_own_ground(site, target.table, target.partition)
    claims_of(site).must_be_free_above(target.table, target.location)
    claims_of(site).must_be_free_by_names(target.table, target.location, site.storage.children(target.location))
    with exclusively(site, target, because="directories in doubt are renamed under an exclusive lock"):
        now = {one.name for one in in_doubt_at(site, target)}
        wanted = {one.name for one in expected}
        if not wanted <= now:
            raise Refused(
                f"{entity}: {', '.join(sorted(wanted - now))} changed or was resolved meanwhile; nothing more was changed; "
                "look again"
            )
        yield


def _set_aside(site: Site, one: InDoubt) -> Resolved:
    name = set_aside_name(one.name, site.metastore.now_ms())
    site.storage.rename(f"{one.location}/{one.name}", f"{one.location}/{name}")
    log.warning("%s/%s: set aside as %s by a person's ruling", one.location, one.name, name)
    reach(CommandStep.SET_ASIDE)
    return Resolved(doubt=one, ruling=Ruling.QUARANTINE, name=name)


def _keep(site: Site, kept: Sequence[InDoubt]) -> list[Resolved]:
    """Gives each directory whose transaction is in doubt the number of a compaction that commits now.

    Delete deltas come first, so that no reader without visibility sees deleted rows again.
    """
    done = [Resolved(doubt=one, ruling=Ruling.KEEP, name=one.name) for one in kept if not one.kinds & _RENAMED]
    numbers: dict[tuple[Entity, object], TxnId] = {}
    for one in sorted((one for one in kept if one.kinds & _RENAMED), key=lambda one: one.name, reverse=True):
        key = (one.entity, _compaction(one))
        if key not in numbers:
            numbers[key] = _committed_compaction(site)
        name = _named_by(one.name, numbers[key])
        if name != one.name:  # the number that it has may be the next one
            site.storage.rename(f"{one.location}/{one.name}", f"{one.location}/{name}")
        log.warning("%s/%s: kept as %s by a person's ruling", one.location, one.name, name)
        reach(CommandStep.KEPT)
        done.append(Resolved(doubt=one, ruling=Ruling.KEEP, name=name))
    return done


def _named_by(name: str, txn: TxnId) -> str:
    acid = parse_directory(name)
    assert isinstance(acid, Base | Delta)
    return replace(acid, visibility_txn_id=txn).name


def _committed_compaction(site: Site) -> TxnId:
    """Returns a compaction transaction that is committed already, so that the name counts from the rename on."""
    transactions = site.metastore.transactions
    txn = transactions.open(site.user, site.host, type=TxnType.COMPACTION, agent=site.identity("resolve"))[0]
    transactions.commit(txn)
    return txn


def _raise_write_ids(site: Site, table: Table, done: Sequence[Resolved]) -> None:
    """Raises the table's counter above every write ID that was in doubt, and lets readers see the kept ones.

    A snapshot reaches to the last write ID with a transaction, so the one above them is given to a transaction of ours; its
    components make the initiator look at the partitions.
    """
    numbers = [doubt.number for one in done for doubt in one.doubt.doubts if doubt.kind is DoubtKind.WRITE_ID]
    if not numbers:
        return
    transactions = site.metastore.transactions
    txn = transactions.open(site.user, site.host, agent=site.identity("resolve"))[0]
    write_id = WriteId(max(numbers) + 1)
    if site.metastore.counters.raise_write_ids(txn, table.database, table.name, write_id):
        reach(CommandStep.WRITE_IDS_RAISED)
        for entity in by_entity(one.doubt for one in done if one.ruling is Ruling.KEEP):
            site.metastore.write_ids.add_component(txn, entity, "i", write_id)
    transactions.commit(txn)

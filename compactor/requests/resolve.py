"""Resolves doubts about directories by a person's rulings (PROTOCOL 11.1, 11.4).

A kept directory gets a name that this metastore can have allocated, and the counters are raised above its write IDs. A
quarantined directory is renamed within the table to a name that every reader skips. Compactor never removes it.
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
from compactor.compaction.queue_entry import Entity
from compactor.initiator.initiator import look_again
from compactor.metastore.catalog.values import Table
from compactor.metastore.transactions.transaction_rows import TxnType
from compactor.requests.in_doubt import InDoubt, by_entity, in_doubt, in_doubt_at
from compactor.site.exclusive import exclusively
from compactor.site.mode import must_write
from compactor.site.restored_database import restore_claim_token
from compactor.site.site import Site, must_lie_alone

log = logging.getLogger(__name__)
#: Doubts that end when the name gets the transaction of a compaction that committed in this metastore.
_RENAMED = frozenset(set(DoubtKind) - {DoubtKind.WRITE_ID})


class Ruling(enum.Enum):
    """A person's decision about a directory."""

    KEEP = "keep"  #: the rows are right, and readers get them
    QUARANTINE = "quarantine"  #: readers and roles no longer see the directory; a person removes it


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """One directory with its ruling and its present name."""

    doubt: InDoubt
    ruling: Ruling
    name: str

    def to_json(self) -> dict[str, object]:
        return {**self.doubt.to_json(), "ruling": self.ruling.value, "name": self.name}


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolution:
    """The result of one call: the directories, and the table's next write ID."""

    directories: tuple[Resolved, ...]
    next_write_id: WriteId

    def to_json(self) -> dict[str, object]:
        return {
            "directories": [resolved.to_json() for resolved in self.directories],
            "next_write_id": self.next_write_id,
        }


def resolve(site: Site, table: Table, rulings: Mapping[str, Ruling]) -> Resolution:
    """Carries out ``rulings``, by ``InDoubt.path``, on every directory of ``table`` that is in doubt.

    Each partition is locked exclusively meanwhile. After a failure half-way, a second call continues.

    Raises:
        Refused: a directory has no ruling, a kept one cannot be read, or the halves of one compaction differ; or the
            mode is observe. Nothing was changed.
        LockNotGranted: a partition is being read or written.
        Disagreement: the set of directories in doubt has changed.
    """
    must_write(site.settings_for(table), str(table))
    site = site.for_a_pass()
    doubtful = in_doubt(site, table)
    must_be_ruled(doubtful, rulings)
    restore_claim_token(site)
    for of_entity in by_entity(doubtful).values():
        _must_have_no_twins(site, of_entity, rulings)
    _abort_lost_compactions(site, doubtful)
    done = _set_all_aside(site, [directory for directory in doubtful if rulings[directory.path] is Ruling.QUARANTINE])
    for entity, of_entity in by_entity(
        directory for directory in doubtful if rulings[directory.path] is Ruling.KEEP
    ).items():
        with _hold(site, entity, of_entity):
            done += _keep(site, of_entity)
    _raise_write_ids(site, table, done)
    look_again(site, table)
    return Resolution(directories=tuple(done), next_write_id=site.metastore.write_ids.next(table.database, table.name))


def quarantine(site: Site, directories: Iterable[InDoubt]) -> list[Resolved]:
    """Sets directories aside; see ``resolve``."""
    chosen, site = list(directories), site.for_a_pass()
    _abort_lost_compactions(site, chosen)
    return _set_all_aside(site, chosen)


def _set_all_aside(site: Site, chosen: Iterable[InDoubt]) -> list[Resolved]:
    """Sets directories aside before any is kept.

    Keeping allocates numbers. A directory in doubt that has one of these numbers would count as committed.
    """
    done: list[Resolved] = []
    for entity, of_entity in by_entity(chosen).items():
        with _hold(site, entity, of_entity):
            done += [_set_aside(site, directory) for directory in of_entity]
    return done


def must_be_ruled(directories: Sequence[InDoubt], rulings: Mapping[str, Ruling]) -> None:
    """Checks that ``rulings`` cover every directory, and that each of them can be carried out.

    Raises:
        Refused: a directory has no ruling, or a ruling cannot be carried out.
    """
    if missing := [directory.path for directory in directories if directory.path not in rulings]:
        raise Refused(
            f"{', '.join(missing)}: in doubt and without a ruling; nothing was changed; keep or quarantine each of them"
        )
    for directory in directories:
        if rulings[directory.path] is Ruling.KEEP and directory.unreadable is not None:
            raise Refused(
                f"{directory.location}/{directory.name}: cannot be kept, since readers cannot read it: "
                f"{directory.unreadable}; nothing was changed; quarantine it, or put the file right"
            )
    halves: dict[tuple[Entity, object], tuple[str, Ruling]] = {}
    for directory in directories:
        other, ruling = halves.setdefault(
            (directory.entity, _compaction_key(directory)), (directory.path, rulings[directory.path])
        )
        if ruling is not rulings[directory.path]:
            raise Refused(
                f"{other} and {directory.path}: are the halves of one compaction, but their rulings differ; nothing was "
                "changed; rule the same for both"
            )


def _must_have_no_twins(site: Site, siblings: Sequence[InDoubt], rulings: Mapping[str, Ruling]) -> None:
    """Refuses to keep a compaction's delta where another delta of its range stays.

    Trino would show each of their rows twice (PROTOCOL 6). ``siblings`` are the directories in doubt of one partition.
    """
    aside = {directory.name for directory in siblings if rulings[directory.path] is Ruling.QUARANTINE}
    staying = [name for name in site.storage.children(siblings[0].location) if name not in aside]
    for directory in siblings:
        twin = next((name for name in staying if _are_twins(directory.name, name)), None)
        if directory.name not in aside and twin is not None:
            raise Refused(
                f"{directory.path}: holds the same write IDs as {twin} next to it, and readers without visibility would "
                "show their rows twice; nothing was changed; quarantine one of them, or wait until a cleaner has removed "
                "the other"
            )


def _are_twins(output: str, other: str) -> bool:
    """Returns true if ``output`` is a compaction's delta, and ``other`` a delta of the same range."""
    delta, other_delta = known_directory(output), known_directory(other)
    if (
        output == other
        or not isinstance(delta, Delta)
        or not isinstance(other_delta, Delta)
        or not delta.visibility_txn_id
    ):
        return False
    return replace(other_delta, visibility_txn_id=delta.visibility_txn_id) == delta


def _compaction_key(directory: InDoubt) -> object:
    """Returns a key that the delta and the delete delta of one minor compaction share.

    Otherwise the directory's name.
    """
    acid = parse_directory(directory.name)
    if isinstance(acid, Delta) and acid.visibility_txn_id:
        return acid.min_write_id, acid.max_write_id, acid.visibility_txn_id
    return directory.name


def _abort_lost_compactions(site: Site, directories: Iterable[InDoubt]) -> None:
    """Aborts the lost compactions whose outputs are in doubt, because their locks would block the table.

    Their outputs are not hidden. A worker that was only suspended can no longer commit.
    """
    for txn in {
        doubt.number for directory in directories for doubt in directory.doubts if doubt.kind is DoubtKind.ONLY_COPY
    }:
        site.metastore.transactions.abort(TxnId(txn), "compaction worker lost, its output decided by a person")


@contextmanager
def _hold(site: Site, entity: Entity, expected: Sequence[InDoubt]) -> Iterator[None]:
    """Holds ``entity`` exclusively, after checking that the directories with a ruling are still in doubt.

    Raises:
        LockNotGranted: the table or partition is in use.
        Refused: a directory changed meanwhile, or the directories may belong to another table.
    """
    target = site.target(entity)
    must_lie_alone(site, target)
    with exclusively(site, target, because="directories in doubt are renamed under an exclusive lock"):
        current = {directory.name for directory in in_doubt_at(site, target)}
        names = {directory.name for directory in expected}
        if not names <= current:
            raise Refused(
                f"{entity}: {', '.join(sorted(names - current))} changed or was resolved meanwhile; nothing more was "
                "changed; look again"
            )
        yield


def _set_aside(site: Site, directory: InDoubt) -> Resolved:
    name = set_aside_name(directory.name, site.metastore.now_ms())
    site.storage.rename(f"{directory.location}/{directory.name}", f"{directory.location}/{name}")
    log.warning("%s/%s: set aside as %s by a person's ruling", directory.location, directory.name, name)
    reach(CommandStep.SET_ASIDE)
    return Resolved(doubt=directory, ruling=Ruling.QUARANTINE, name=name)


def _keep(site: Site, kept: Sequence[InDoubt]) -> list[Resolved]:
    """Renames each directory whose transaction is in doubt to the number of a compaction that commits now.

    Delete deltas come first, so that a reader without visibility never sees deleted rows again.
    """
    done = [
        Resolved(doubt=directory, ruling=Ruling.KEEP, name=directory.name)
        for directory in kept
        if not directory.kinds & _RENAMED
    ]
    numbers: dict[tuple[Entity, object], TxnId] = {}
    for directory in sorted(
        (directory for directory in kept if directory.kinds & _RENAMED),
        key=lambda directory: directory.name,
        reverse=True,
    ):
        key = (directory.entity, _compaction_key(directory))
        if key not in numbers:
            numbers[key] = _commit_empty_compaction(site)
        name = _name_with_transaction(directory.name, numbers[key])
        if name != directory.name:  # the name may already contain this number
            site.storage.rename(f"{directory.location}/{directory.name}", f"{directory.location}/{name}")
        log.warning("%s/%s: kept as %s by a person's ruling", directory.location, directory.name, name)
        reach(CommandStep.KEPT)
        done.append(Resolved(doubt=directory, ruling=Ruling.KEEP, name=name))
    return done


def _name_with_transaction(name: str, txn: TxnId) -> str:
    acid = parse_directory(name)
    assert isinstance(acid, Base | Delta)
    return replace(acid, visibility_txn_id=txn).name


def _commit_empty_compaction(site: Site) -> TxnId:
    """Opens and commits an empty compaction transaction, so that a name with its number counts at once."""
    transactions = site.metastore.transactions
    txn = transactions.open(site.user, site.host, type=TxnType.COMPACTION, agent=site.identity("resolve"))[0]
    transactions.commit(txn)
    return txn


def _raise_write_ids(site: Site, table: Table, done: Sequence[Resolved]) -> None:
    """Raises the table's counter above every write ID in doubt, so that readers see kept directories.

    A snapshot reaches up to the last write ID that has a transaction. So a transaction of ours gets the write ID above them.
    Its components make the initiator look at the partitions.
    """
    numbers = [doubt.number for resolved in done for doubt in resolved.doubt.doubts if doubt.kind is DoubtKind.WRITE_ID]
    if not numbers:
        return
    transactions = site.metastore.transactions
    txn = transactions.open(site.user, site.host, agent=site.identity("resolve"))[0]
    write_id = WriteId(max(numbers) + 1)
    if site.metastore.marks.raise_write_ids(txn, table.database, table.name, write_id):
        reach(CommandStep.WRITE_IDS_RAISED)
        for entity in by_entity(resolved.doubt for resolved in done if resolved.ruling is Ruling.KEEP):
            site.metastore.write_ids.add_component(txn, entity, "i", write_id)
    transactions.commit(txn)

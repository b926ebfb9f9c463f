"""The rows that a transaction has written but not yet published (PROTOCOL 14.1).

Files are written below a hidden directory of their table or partition, ``.compactor_w<txn>_<token>``, that only this user
can read. They get their final names inside the committing database transaction. A writer that was paused until its
transaction was forgotten publishes nothing: rows under the name of a forgotten write ID would count as committed.
"""

from __future__ import annotations

import os
import secrets
import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from compactor.acid.names import ACID_VERSION, ACID_VERSION_FILE, Base, Delta, DeltaKind, writing_name
from compactor.base.errors import NotSupported, StorageError, VerificationFailed
from compactor.base.ids import TxnId, WriteId
from compactor.base.steps import WriteStep, reach
from compactor.compaction.queue_entry import Entity
from compactor.metastore.notifications.write_events import Write
from compactor.rewrite.plan.unit import Figures, Output
from compactor.rewrite.publish import naming
from compactor.rewrite.publish.stage import ATTEMPTS, OUT, Staged, StagedDirectory, StagedFile, token
from compactor.rewrite.run.attempt_files import hand_over
from compactor.rows.inputs import Input
from compactor.storage.protocol import Storage


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingDirectory:
    """A complete staged directory of one statement, with its files as the transaction itself reads them."""

    acid: Base | Delta
    staged: StagedDirectory
    inputs: tuple[tuple[int, Input], ...]  #: by file number


class Pending:
    """The staged directories of one transaction, by location."""

    def __init__(self, storage: Storage, txn: TxnId) -> None:
        self._storage, self._txn = storage, txn
        self._staging: dict[str, str] = {}
        self._directories: dict[str, tuple[PendingDirectory, ...]] = {}
        self._accepted = 0
        self._rows: Counter[tuple[str, int]] = Counter()  # inserted rows, by location and file number

    def __bool__(self) -> bool:
        return bool(self._staging)

    @property
    def directories(self) -> Mapping[str, tuple[PendingDirectory, ...]]:
        """The staged directories, by location."""
        return dict(self._directories)

    def take_back(self, before: Mapping[str, tuple[PendingDirectory, ...]]) -> None:
        """Forgets directories that were staged after ``directories`` returned ``before``.

        Their files stay in staging.
        """
        self._directories = dict(before)

    def at(self, location: str) -> tuple[PendingDirectory, ...]:
        """Returns the directories staged at ``location``, in the order of the statements."""
        return self._directories.get(location, ())

    def next_row(self, location: str, number: int) -> int:
        """Returns the row ID of the next row inserted at ``location`` into files of this number.

        See PROTOCOL 14.5.
        """
        return self._rows[location, number]

    def attempt(self, location: str, acid: Base | Delta) -> str:
        """Returns a new path at ``location`` for an attempt to write the files of ``acid``.

        It does not exist yet.

        Raises:
            NotSupported: the transaction has overwritten the location, so readers see only the base of its write ID.
        """
        if not isinstance(acid, Base) and any(isinstance(staged.acid, Base) for staged in self.at(location)):
            raise NotSupported(
                f"{location}: transaction {self._txn} has overwritten it, and readers skip what the same transaction adds; "
                "commit first, or overwrite with all rows at once"
            )
        return f"{self.attempts(location)}/{secrets.token_hex(8)}"

    def attempts(self, location: str) -> str:
        """Returns the directory for attempts of this process, and of others that ``accept_from`` takes."""
        if location not in self._staging:
            staging = f"{location}/{writing_name(self._txn, token())}"
            self._storage.make_private(staging, (ATTEMPTS, OUT))
            self._staging[location] = staging
        return f"{self._staging[location]}/{ATTEMPTS}"

    def let_go(self, location: str) -> None:
        """Removes the staging directory of ``location`` if nothing was accepted there."""
        if location in self._staging and location not in self._directories:
            self._storage.remove(self._staging.pop(location), durable=False)

    def accept(self, location: str, acid: Base | Delta, outputs: Sequence[Output], home: str) -> None:
        """Accepts files that this process wrote at ``home`` as the statement's directory ``acid``.

        A base replaces everything that the transaction has staged at this location before.
        """
        reach(WriteStep.WRITE_ATTEMPTED)
        storage = self._storage
        path = self._new_directory(location, acid)
        storage.make_inside(path)
        # local files are moved; elsewhere they are uploaded to the place where they are staged
        is_local = storage.local_path(home) is not None
        files = []
        for output in hand_over(storage, outputs, home if is_local else path, full=False):
            if is_local:
                storage.rename(output.path, f"{path}/{output.name}", durable=False)
            files.append(_staged_file(output))
            if not isinstance(acid, Delta) or acid.kind is not DeltaKind.DELETE:
                self._rows[location, output.number] += output.rows
        self._take(location, acid, outputs, path, files)

    def accept_from(self, location: str, acid: Base | Delta, source: str, outputs: Sequence[Output]) -> None:
        """Accepts ``source``, which another process has filled, as a directory of the statement.

        It has filled it with ``outputs``.

        It may be an attempt at another location, since partitions show only in the rows.

        Raises:
            VerificationFailed: a file does not have the length that the other process reported.
        """
        reach(WriteStep.WRITE_ATTEMPTED)
        for output in outputs:
            if (length := self._storage.length(output.path)) != output.length:
                raise VerificationFailed(
                    f"{output.path} has {length} bytes, but {output.length} were written; nothing was published, write again"
                )
        self.attempts(location)
        path = self._new_directory(location, acid)
        self._storage.rename(source, path, durable=False)
        self._take(location, acid, outputs, path, [_staged_file(output) for output in outputs])

    def _new_directory(self, location: str, acid: Base | Delta) -> str:
        self._accepted += 1
        return f"{self._staging[location]}/{OUT}/{self._accepted}_{acid.name}"

    def _take(
        self, location: str, acid: Base | Delta, outputs: Sequence[Output], path: str, files: Sequence[StagedFile]
    ) -> None:
        """Takes the directory ``path``, which holds all files."""
        self._storage.write(f"{path}/{ACID_VERSION_FILE}", ACID_VERSION)
        staged = StagedDirectory(name=acid.name, staged=path, files=tuple(files))
        below = os.path.relpath(path, location)
        inputs = tuple((output.number, _input(acid, f"{below}/{output.name}", output)) for output in outputs)
        before = () if isinstance(acid, Base) else self.at(location)
        self._directories[location] = (*before, PendingDirectory(acid=acid, staged=staged, inputs=inputs))
        reach(WriteStep.WRITE_STAGED)

    def make_durable(self) -> None:
        """Gives the staged files the owner and mode of their location, and makes them durable.

        Raises:
            StorageError: something could not be made durable; the transaction must not commit.
        """
        places = [f"{staging}/{OUT}" for staging in self._staging.values()]
        for location, staging in self._staging.items():
            self._storage.adopt(f"{staging}/{OUT}", like=location)
        for error in self._storage.sync(places).values():
            raise error
        reach(WriteStep.WRITE_DURABLE)

    def name(self, limit_s: float) -> None:
        """Gives every staged directory its final name, one after another.

        Readers skip names of an open write ID.

        Raises:
            StorageError: a name is taken, or ``limit_s`` has passed, so that the transaction may have timed out meanwhile.
        """
        started_at = time.monotonic()
        for location, directories in self._directories.items():
            if time.monotonic() - started_at > limit_s:
                raise StorageError(f"{location}: naming took longer than {limit_s:.0f} s, half of hive.txn.timeout")
            staged = tuple(pending.staged for pending in directories)
            staging = self._staging[location]
            naming.name_directories(
                self._storage, Staged(location=location, staging=staging, directories=staged, figures=Figures())
            )
            reach(WriteStep.WRITE_NAMED_FIRST)
        reach(WriteStep.WRITE_NAMED)

    def remove_staging(self) -> None:
        """Removes the staging directories."""
        for staging in self._staging.values():
            self._storage.remove(staging, durable=False)
        self._staging.clear()


def _staged_file(output: Output) -> StagedFile:
    return StagedFile(name=output.name, length=output.length, crc32=output.crc32, rows=output.rows)


def overlay(
    inserts: dict[int, list[Input]], deletes: dict[int, list[Input]], pending: Sequence[PendingDirectory]
) -> None:
    """Adds the files that the reading transaction has staged to those of a directory, by file number."""
    for directory in pending:
        if isinstance(directory.acid, Base):
            inserts.clear()
            deletes.clear()
        is_delete = isinstance(directory.acid, Delta) and directory.acid.kind is DeltaKind.DELETE
        for number, source in directory.inputs:
            (deletes if is_delete else inserts).setdefault(number, []).append(source)


def _input(acid: Base | Delta, path: str, output: Output) -> Input:
    write_id, statement_id = (acid.write_id, None) if isinstance(acid, Base) else (acid.min_write_id, acid.statement_id)
    return Input(path=path, length=output.length, write_id=write_id, statement_id=statement_id, group=path)


class Written:
    """The places that a transaction has written into."""

    def __init__(self) -> None:
        self._places: dict[Entity, tuple[WriteId, str]] = {}

    def note(self, entity: Entity, write_id: WriteId, location: str) -> None:
        """Notes a table without partitions, or a partition, whose component is recorded."""
        self._places[entity] = write_id, location

    @property
    def places(self) -> Mapping[Entity, tuple[WriteId, str]]:
        """The write ID and location of each written table or partition."""
        return dict(self._places)

    def take_back(self, before: Mapping[Entity, tuple[WriteId, str]]) -> None:
        """Forgets the places that were noted after ``places`` returned ``before``."""
        self._places = dict(before)

    @property
    def entities(self) -> Collection[Entity]:
        """The written tables and partitions."""
        return self._places.keys()

    def writes(self, staged: Mapping[str, Sequence[PendingDirectory]], added: Collection[Entity]) -> list[Write]:
        """Returns the writes to commit, with their ``staged`` files, by location.

        Entities in ``added`` are new.
        """
        return [
            Write(
                entity=entity,
                write_id=write_id,
                files={
                    directory.acid.name: [file.name for file in directory.staged.files]
                    for directory in staged.get(location, ())
                },
                is_new=entity in added,
            )
            for entity, (write_id, location) in self._places.items()
        ]

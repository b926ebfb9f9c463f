"""The partitions that a transaction has written into, and the files that its commit tells of."""

from __future__ import annotations

from compactor.acid.names import Base, Delta, DeltaKind
from compactor.base.ids import WriteId
from compactor.compaction.entry import Entity
from compactor.metastore.notifications.write_events import Write
from compactor.rewrite.publish.stage import StagedDirectory, StagedFile
from compactor.tables.transactions.pending import PendingDirectory
from compactor.tables.transactions.written import Written

PART = Entity(database="default", table="t", partition="p=1")
OTHER = Entity(database="default", table="u", partition=None)


def staged(acid: Base | Delta, *names: str) -> PendingDirectory:
    files = tuple(StagedFile(name=name, length=1, crc32=0, rows=1) for name in names)
    return PendingDirectory(acid=acid, staged=StagedDirectory(name=acid.name, staged="/s", files=files), inputs=())


def test_files_are_those_staged_at_its_location() -> None:
    written = Written()
    written.note(PART, WriteId(4), "/w/t/p=1")
    written.note(OTHER, WriteId(2), "/w/u")
    inserts = Delta(kind=DeltaKind.INSERT, min_write_id=WriteId(4), max_write_id=WriteId(4), statement_id=1)
    deletes = Delta(kind=DeltaKind.DELETE, min_write_id=WriteId(4), max_write_id=WriteId(4), statement_id=0)
    directories = {"/w/t/p=1": [staged(deletes, "bucket_00000"), staged(inserts, "bucket_00000", "bucket_00001")]}
    files = {
        "delete_delta_0000004_0000004_0000": ["bucket_00000"],
        "delta_0000004_0000004_0001": ["bucket_00000", "bucket_00001"],
    }
    assert written.writes(directories, [PART]) == [
        Write(entity=PART, write_id=WriteId(4), files=files, is_new=True),
        Write(entity=OTHER, write_id=WriteId(2)),
    ]

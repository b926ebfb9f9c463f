"""The guarantees of each store.

Callers decide by them; ``compactor doctor`` and docs/storage.md print them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """The guarantees of one kind of store.

    ``renames``: a directory moves with its content in one atomic step. Without it, files get their final names one by one
    (PROTOCOL 5). ``tried`` names what the tests run against.
    """

    store: str
    renames: bool
    refuses_taken_names: bool  #: a rename to a taken name fails in the store itself, not in a check before it
    syncs: bool  #: written data can be forced to disk
    completes_whole: bool  #: a half-written file is never visible under its name
    has_owner: bool  #: owner, group and mode
    has_acl: bool
    bulk_removal: bool  #: many files, or a directory, in one request
    knows_free_bytes: bool
    tried: str
    defers: bool = False  #: naming completes an upload, without a copy

    def needs_exclusive(self, files: int, directories: int) -> bool:
        """Returns true if readers without visibility could see part of the output during naming (PROTOCOL 5)."""
        return directories > 1 or (files > 1 and not self.renames)

    def __str__(self) -> str:
        naming = (
            "a directory is named and taken away by one rename"
            if self.renames
            else "no rename: several files are named, and directories removed, under an exclusive lock"
        )
        kept = (
            "owner, mode and ACL are kept"
            if self.has_owner and self.has_acl
            else "no owner, mode or ACL of a file's own"
        )
        acknowledged = "durable" if self.completes_whole else "as durable as its server makes it"
        durable = "files are synced before the commit" if self.syncs else f"an acknowledged file is {acknowledged}"
        sent = "; uploads are named without a copy" if self.defers else ""
        return f"{self.store}: {naming}{sent}; {kept}; {durable}; tests ran against {self.tried}"

    def to_json(self) -> dict[str, object]:
        return {name: getattr(self, name) for name in self.__slots__}


LOCAL = Capabilities(
    store="local or mounted directory",
    renames=True,
    refuses_taken_names=False,
    syncs=True,
    completes_whole=False,
    has_owner=True,
    has_acl=True,
    bulk_removal=False,
    knows_free_bytes=True,
    tried="local disks and memory",
)
HDFS = Capabilities(
    store="HDFS",
    renames=True,
    refuses_taken_names=True,
    syncs=True,
    completes_whole=False,
    has_owner=True,
    has_acl=True,
    bulk_removal=True,
    knows_free_bytes=True,
    tried="a NameNode and a DataNode 3.4.1, also with Kerberos",
)
#: It supports neither flags of a new file nor options of a rename.
HTTPFS = replace(
    HDFS,
    store="HDFS through HttpFS",
    refuses_taken_names=False,
    syncs=False,
    tried="HttpFS 3.4.1 in front of both, also with Kerberos",
)
S3 = Capabilities(
    store="S3",
    renames=False,
    refuses_taken_names=False,
    syncs=False,
    completes_whole=True,
    has_owner=False,
    has_acl=False,
    bulk_removal=True,
    knows_free_bytes=False,
    tried="moto's server, not Amazon's",
    defers=True,
)
GCS = replace(S3, store="Google Cloud Storage", defers=False, tried="an emulator, not Google's")
#: A hierarchical namespace could rename directories; it is used as a flat one.
ABFS = replace(GCS, store="Azure Data Lake", tried="Azurite, which has no hierarchical namespace, not Azure's")
EVERY = (LOCAL, HDFS, HTTPFS, S3, GCS, ABFS)

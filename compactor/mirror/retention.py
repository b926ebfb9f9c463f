"""Expires old snapshots of a mirror, and removes files that no snapshot names.

The name of each file of a pass begins with the id of the head from which the pass began. A pass can commit only while that
head is the newest. So a file with another head's id that no snapshot names is garbage, whoever wrote it and however slow its
writer is (PROTOCOL 15.9).
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable

from pyiceberg.catalog import Catalog
from pyiceberg.table import Table as IcebergTable
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.update import AssertRefSnapshotId, AssertTableUUID, RemoveSnapshotsUpdate

from compactor.base.steps import MirrorStep, reach
from compactor.compaction.queue_entry import Entity
from compactor.mirror.catalogs import catalog_errors
from compactor.mirror.mirror_pass import DATA, METADATA, NO_HEAD, read_offset
from compactor.mirror.offset import parse_offset
from compactor.site.site import Site
from compactor.state.mirrors import Mirror

log = logging.getLogger(__name__)
RETENTION = "compactor.mirror.retention"
#: 7316540042341-9f86d081884c7d65-3.orc: the head's id, the pass, and what the file is
PASS_FILE = re.compile(r"(?P<head>\d+)-[0-9a-f]{16}-[\w.-]+")


def expire_snapshots(site: Site, mirror: Mirror, catalog: Catalog) -> int:
    """Expires the snapshots that are older than the retention, and returns their number.

    The head stays, and so does a snapshot that a branch or tag of somebody names. Nothing is expired unless the head is the
    last commit of the mirror, because another pass may still have to compare it with an older one.

    Raises:
        MirrorStopped: the head is not ours.
    """
    iceberg = _load(mirror, catalog)
    metadata = iceberg.metadata
    head = metadata.current_snapshot()
    if head is None or head.snapshot_id != mirror.last_snapshot:
        return 0
    settings = site.settings_of(Entity(database=mirror.database, table=mirror.table))
    oldest = site.metastore.now_ms() - settings.milliseconds(RETENTION)
    named = {reference.snapshot_id for reference in metadata.refs.values()}
    expired = [
        snapshot.snapshot_id
        for snapshot in metadata.snapshots
        if snapshot.snapshot_id not in named and snapshot.timestamp_ms < oldest
    ]
    if not expired:
        return 0
    with catalog_errors(mirror.identifier):
        catalog.commit_table(
            iceberg,
            (
                AssertTableUUID(uuid=metadata.table_uuid),
                AssertRefSnapshotId.model_validate({"ref": MAIN_BRANCH, "snapshot-id": head.snapshot_id}),
            ),
            (RemoveSnapshotsUpdate.model_validate({"snapshot-ids": expired}),),
        )
    reach(MirrorStep.MIRROR_EXPIRED)
    return len(expired)


def remove_garbage(site: Site, mirror: Mirror, catalog: Catalog) -> int:
    """Removes the files that passes wrote and no snapshot names, and returns their number.

    Raises:
        MirrorStopped: the head is not ours.
        StorageError: a directory cannot be listed.
    """
    location = site.storage.resolve(_load(mirror, catalog).location())
    listed = {
        f"{folder}/{name}": match["head"]
        for folder in (DATA, METADATA)
        for name in site.storage.children(f"{location}/{folder}")
        if (match := PASS_FILE.fullmatch(name))
    }
    # After the listing: a pass that began from another head than this one can never commit what was listed.
    iceberg = _load(mirror, catalog)
    head = iceberg.metadata.current_snapshot()
    current = NO_HEAD if head is None else str(head.snapshot_id)
    candidates = {name for name, began_from in listed.items() if began_from != current}
    if not candidates:
        return 0
    garbage = sorted(candidates - named_files(iceberg))
    failed = 0
    for folder in (DATA, METADATA):
        paths = [f"{location}/{name}" for name in garbage if name.startswith(f"{folder}/")]
        for path, error in site.storage.remove_all(paths).items() if paths else ():
            failed += 1
            log.warning("%s: %s stays: %s", mirror.name, path, error)
    return len(garbage) - failed


def named_files(iceberg: IcebergTable) -> set[str]:
    """Returns the files that any snapshot names, relative to the table's location."""
    root = f"{iceberg.location().rstrip('/')}/"
    manifests: set[str] = set()
    paths: set[str] = set()
    for snapshot in iceberg.metadata.snapshots:
        paths.add(snapshot.manifest_list)
        if snapshot.summary is not None:
            offset = parse_offset(snapshot.summary.additional_properties, iceberg.location())
            paths.update(() if offset is None else (f"{root}{offset.file_map}",))
        for manifest in snapshot.manifests(iceberg.io):
            if manifest.manifest_path not in manifests:
                manifests.add(manifest.manifest_path)
                paths.update(entry.data_file.file_path for entry in manifest.fetch_manifest_entry(iceberg.io))
    return set(_relative(root, paths | manifests))


def _relative(root: str, paths: Iterable[str]) -> Iterable[str]:
    return (path.removeprefix(root) for path in paths)


def _load(mirror: Mirror, catalog: Catalog) -> IcebergTable:
    with catalog_errors(mirror.identifier):
        iceberg = catalog.load_table(mirror.identifier)
    read_offset(mirror, iceberg)
    return iceberg

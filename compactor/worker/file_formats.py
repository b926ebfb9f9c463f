"""The format of the files of an insert-only table or partition."""

from __future__ import annotations

from compactor.base.errors import NotSupported, Refused
from compactor.rewrite.plan.file_format import FileFormat, file_format
from compactor.site.site import Site, Target

_SWITCH = "hive.compactor.compact.insert.only"


def file_format_of(site: Site, target: Target) -> FileFormat | None:
    """Returns the file format of an insert-only table or partition; None if the files hold ACID rows.

    Raises:
        Refused: the settings exclude insert-only tables from compaction.
        NotSupported: the table holds ACID rows in another format than ORC.
    """
    table, partition = target.table, target.partition
    if not table.is_insert_only:
        if "orc" not in (table.input_format or "").lower():
            raise NotSupported(f"{target.entity}: expected the ORC input format, found {table.input_format}")
        return None
    if not site.settings.boolean(_SWITCH):
        raise Refused(f"{target.entity}: the table is insert-only and {_SWITCH} is false")
    storage = site.metastore.catalog.storage_format(table, partition)
    of_partition = partition.parameters if partition is not None else {}
    parameters = {**table.parameters, **of_partition, **storage.serde_parameters}
    return file_format(storage.input_format, parameters)

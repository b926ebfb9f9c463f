"""The format of the files of an insert-only table or partition."""

from __future__ import annotations

from compactor.acid.names import Layout
from compactor.base.errors import NotSupported, Refused
from compactor.metastore.catalog.values import Table
from compactor.rewrite.plan.file_format import FileFormat, file_format
from compactor.settings.output_class import OutputClass, refused_by_orc_1_5
from compactor.site.named_tables import nearest
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


def must_suit(table: Table, output_class: OutputClass | None, layout: Layout) -> None:
    """Checks that files of ``table``, in a metastore of this layout, can be of ``output_class``.

    Raises:
        Refused: they cannot.
    """
    if output_class is None:
        return
    if not layout.has_visibility and (reason := refused_by_orc_1_5(output_class.compression)):
        raise Refused(f"{table}: {reason}")
    if table.is_insert_only:
        raise Refused(f"{table}: {output_class}: files of an insert-only table are combined as they are")
    # Few requests name a class of files, and the question brings the libraries that write ORC.
    from compactor.orc.codecs.bloom_filters import filters_by_name
    from compactor.orc.format.hive_types import parse_hive_type

    types = {column.name.lower(): column.type for column in table.columns}
    row = parse_hive_type(table.row_type)
    for name in output_class.bloom_filters or ():
        if name != "*" and name not in types:
            raise Refused(f"{table}: {output_class}: it has no column {name!r}{nearest(name, types)}")
        if not filters_by_name(row, [name]).encoded:
            of = "no column has" if name == "*" else f"column {name} is {types[name]}, which cannot have"
            raise Refused(f"{table}: {output_class}: {of} a bloom filter by which all readers find its rows")

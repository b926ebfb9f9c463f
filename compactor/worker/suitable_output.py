"""Checks that a table can have files of the class that a request wants."""

from __future__ import annotations

from compactor.acid.names import Layout
from compactor.base.errors import Refused
from compactor.metastore.catalog.values import Table
from compactor.orc.codecs.bloom_filters import filters_by_name
from compactor.orc.format.hive_types import parse_hive_type
from compactor.settings.output_class import OutputClass, refused_by_orc_1_5
from compactor.site.named_tables import nearest


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
    types = {column.name.lower(): column.type for column in table.columns}
    row = parse_hive_type(table.row_type)
    for name in output_class.bloom_filters or ():
        if name != "*" and name not in types:
            raise Refused(f"{table}: {output_class}: it has no column {name!r}{nearest(name, types)}")
        if not filters_by_name(row, [name]).encoded:
            of = "no column has" if name == "*" else f"column {name} is {types[name]}, which cannot have"
            raise Refused(f"{table}: {output_class}: {of} a bloom filter by which all readers find its rows")

"""The class of files that a request asks for, compared with the table that they are for."""

from __future__ import annotations

from compactor.acid.names import Layout
from compactor.base.errors import Refused
from compactor.metastore.catalog.values import Table
from compactor.orc.codecs.bloom_filters import filters_by_name
from compactor.orc.format.hive_types import parse_hive_type
from compactor.settings.output_class import OutputClass, refused_by_orc_1_5
from compactor.site.named_tables import nearest


def must_suit(table: Table, asked: OutputClass | None, layout: Layout) -> None:
    """Raises ``Refused`` if files of ``table``, in a metastore of this layout, cannot be of the class that is asked for."""
    if asked is None:
        return
    if not layout.has_visibility and (reason := refused_by_orc_1_5(asked.compression)):
        raise Refused(f"{table}: {reason}")
    if table.is_insert_only:
        raise Refused(f"{table}: {asked}: files of an insert-only table are combined as they are")
    types = {column.name.lower(): column.type for column in table.columns}
    row = parse_hive_type(table.row_type)
    for name in asked.bloom_filters or ():
        if name != "*" and name not in types:
            raise Refused(f"{table}: {asked}: it has no column {name!r}{nearest(name, types)}")
        if not filters_by_name(row, [name]).encoded:
            of = "no column has" if name == "*" else f"column {name} is {types[name]}, which cannot have"
            raise Refused(f"{table}: {asked}: {of} a bloom filter by which all readers find its rows")

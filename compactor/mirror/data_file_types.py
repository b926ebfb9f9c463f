"""The ORC types of data files: the types of an ACID file's rows, with Iceberg's names and field IDs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from pyiceberg.schema import Schema
from pyiceberg.types import IcebergType, ListType, LongType, MapType, NestedField, StructType

from compactor.base.errors import NotSupported
from compactor.orc.format.hive_types import parse_hive_type, schema_text
from compactor.orc.format.types import INTEGERS, TEXT_KINDS, OrcType, TypeKind, Types, struct_of, subtree
from compactor.rows.acid_file import AcidFile
from compactor.tables.reading.scan_tasks import ScanPlan

_FIELD_ID, _REQUIRED = b"iceberg.id", b"iceberg.required"


@dataclass(frozen=True, kw_only=True)
class FileTypes:
    """The types of one ACID file, of its table, and of the data file.

    Columns are matched by position. The table may have more columns than the file; Iceberg's readers show NULL for them.
    """

    plan: ScanPlan
    file: AcidFile
    schema: Schema

    @cached_property
    def table_types(self) -> Types:
        """The types of the table."""
        return parse_hive_type(self.plan.row_type)

    @cached_property
    def fields(self) -> tuple[NestedField, ...]:
        """The Iceberg field of each column that the file has.

        Raises:
            NotSupported: a column is a uniontype.
        """
        count = min(len(self._row[0].children), len(self.plan.names))
        for place in range(count):
            for types, column in ((self._row, self._row[0].children[place]), self._of_table(place)):
                if any(item.kind is TypeKind.UNION for item in subtree(types, column)):
                    raise NotSupported(
                        f"{self.plan.table}: column {self.plan.names[place]} is {schema_text(types, column)} in file "
                        f"{self.file.path}, and Iceberg has no uniontype; the table cannot be mirrored"
                    )
        return tuple(self.schema.find_field(name) for name in self.plan.names[:count])

    @property
    def _row(self) -> Types:
        return self.file.tail.types.row

    def _of_table(self, place: int) -> tuple[Types, int]:
        return self.table_types, self.table_types[0].children[place]

    @cached_property
    def are_copyable(self) -> bool:
        """True if Iceberg's readers show the file's bytes like Hive shows them in the table.

        A smallint, int or bigint has the same bytes, and Iceberg promotes a decimal to one of more digits. A tinyint has
        other bytes, and could never become a bigint. Engines disagree about blanks at the end of a char, and a reader would
        stumble over a column that the table does not have.
        """
        children = self._row[0].children
        return len(children) <= len(self.plan.names) and all(
            _reads_alike(self._row, child, *self._of_table(place)) for place, child in enumerate(children)
        )

    @cached_property
    def copied(self) -> Types:
        """The types of a data file of copied stripes."""
        return self._with_ids(self._row)

    @cached_property
    def encoded(self) -> Types:
        """The types of a data file of encoded rows."""
        return self._with_ids(self.table_types)

    def _with_ids(self, types: Types) -> Types:
        children = types[0].children[: len(self.fields)]
        return struct_of(
            [(field.name, _tree(types, child, field)) for child, field in zip(children, self.fields, strict=True)]
        )


def _reads_alike(old: Types, i: int, new: Types, j: int) -> bool:
    a, b = old[i], new[j]
    if a.kind is TypeKind.CHAR or b.kind is TypeKind.CHAR:
        return False
    if a.children or b.children:
        return (
            a.kind is b.kind
            and len(a.children) <= len(b.children)
            and all(_reads_alike(old, x, new, y) for x, y in zip(a.children, b.children, strict=False))
        )
    if a.kind in TEXT_KINDS:
        return b.kind in TEXT_KINDS
    if a.kind in INTEGERS:
        return a.kind is not TypeKind.BYTE and b.kind in INTEGERS and a.kind <= b.kind
    return a.kind is b.kind and a.scale == b.scale and a.precision <= b.precision


def _tree(types: Types, column: int, field: NestedField) -> Types:
    """Returns column ``column`` with the names and IDs of ``field``.

    Texts of any kind become strings, and integers have the type of ``field``: Iceberg's readers in Java promote no smaller
    one to a bigint.
    """
    item = types[column]
    parts = [
        (name, _tree(types, child, inner))
        for child, (name, inner) in zip(item.children, _inner_fields(field.field_type), strict=False)
    ]
    root, *rest = struct_of(parts)
    attributes = (
        (_FIELD_ID, str(field.field_id).encode()),
        (_REQUIRED, b"true" if field.required else b"false"),
    )
    top = OrcType(
        kind=_kind(item.kind, field.field_type),
        children=root.children,
        field_names=root.field_names if item.kind is TypeKind.STRUCT else (),
        precision=item.precision,
        scale=item.scale,
        attributes=attributes,
    )
    return Types((top, *rest))


def _kind(kind: TypeKind, target: IcebergType) -> TypeKind:
    if kind in INTEGERS:
        return TypeKind.LONG if isinstance(target, LongType) else TypeKind.INT
    return TypeKind.STRING if kind in TEXT_KINDS else kind


def _inner_fields(kind: IcebergType) -> list[tuple[str, NestedField]]:
    if isinstance(kind, StructType):
        return [(field.name, field) for field in kind.fields]
    if isinstance(kind, ListType):
        return [("", kind.element_field)]
    if isinstance(kind, MapType):
        return [("", kind.key_field), ("", kind.value_field)]
    return []


def field_ids(types: Types) -> list[tuple[int, int]]:
    """Returns the column and the field ID of each column at the top of a data file."""
    return [(child, int(dict(types[child].attributes)[_FIELD_ID])) for child in types[0].children]

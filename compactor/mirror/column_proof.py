"""Compares every column of a mirror with its table: sums of hashes that two readers show.

Counts prove nothing about values, so all of them are read (PROTOCOL 15.5).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import pyarrow as pa
from pyiceberg.catalog import Catalog

from compactor.base.errors import NotSupported
from compactor.mirror.catalogs import catalog_errors, open_catalog
from compactor.mirror.mirror_pass import EndedPass, open_pass
from compactor.mirror.mirrored_tables import find_mirror, record_commit
from compactor.mirror.plain_values import PlainValues
from compactor.orc.codecs.arrow_types import Array, ArrowType
from compactor.orc.format.hive_types import parse_hive_type, valid_name
from compactor.orc.format.types import TypeKind, Types
from compactor.rows.checksum import MODULUS, checksum
from compactor.site.site import Site
from compactor.state.mirrors import Mirror
from compactor.tables.reading.scan import Scan
from compactor.tables.reading.scan_planning import ScanRequest

_TIMES = (TypeKind.TIMESTAMP, TypeKind.TIMESTAMP_INSTANT)


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnProof:
    """The rows of a table and of its mirror, and the columns whose values differ."""

    mirror: Mirror
    rows: int
    mirrored_rows: int
    columns: int
    differing: tuple[str, ...]

    @property
    def is_equal(self) -> bool:
        return self.rows == self.mirrored_rows and not self.differing


def prove_columns(site: Site, name: str) -> ColumnProof:
    """Brings the mirror of ``<database>.<table>`` up to date, and compares all values of all columns.

    Both sides are read under the snapshot of one transaction.

    Raises:
        NotFound: the table has no mirror.
        NotSupported: the mirror is not for PyIceberg, which reads it here.
        CompactorError: the pass or a reader failed.
    """
    mirror = find_mirror(site, name)
    if not mirror.for_pyiceberg:
        raise NotSupported(f"{name}: the mirror was added without PyIceberg, which would have to read it here")
    catalog = open_catalog(site, mirror.catalog)
    with open_pass(site, mirror, catalog) as ended:
        record_commit(site, mirror, ended.result)
        ours = _sum_columns(ended, _scan(ended))
        theirs = _sum_columns(ended, _read_mirror(mirror, catalog, ended))
    (rows, sums), (mirrored_rows, mirrored_sums) = ours, theirs
    return ColumnProof(
        mirror=mirror,
        rows=rows,
        mirrored_rows=mirrored_rows,
        columns=len(sums),
        differing=tuple(column for column, value in sums.items() if mirrored_sums[column] != value),
    )


def _scan(ended: EndedPass) -> Iterable[pa.RecordBatch]:
    scan = Scan(ended.txn.site, ended.table, ScanRequest(timestamps="us"), ended.txn)
    with scan.to_arrow_batch_reader() as reader:
        yield from reader


def _read_mirror(mirror: Mirror, catalog: Catalog, ended: EndedPass) -> Iterable[pa.RecordBatch]:
    if ended.head is None:
        return
    with catalog_errors(mirror.identifier):
        iceberg = catalog.load_table(mirror.identifier)
        yield from iceberg.scan(snapshot_id=ended.head).to_arrow_batch_reader()


def _sum_columns(ended: EndedPass, batches: Iterable[pa.RecordBatch]) -> tuple[int, dict[str, int]]:
    """Returns the number of rows, and the sum of the hashes of each column's values."""
    columns = (*ended.table.columns, *ended.table.partition_keys)
    sums = {column.name: 0 for column in columns}
    rows = 0
    for batch in batches:
        rows += batch.num_rows
        names = {valid_name(name).lower(): place for place, name in enumerate(batch.schema.names)}
        for column in columns:
            array = batch.column(names[valid_name(column.name).lower()])
            plain = _without_blanks(_small(array), parse_hive_type(column.type), column.name)
            sums[column.name] = (sums[column.name] + checksum(plain)) % MODULUS
    return rows, sums


def _small(array: Array) -> Array:
    """Returns an array whose lists and texts have the types of our own scans."""
    kind = _small_type(array.type)
    return array if kind == array.type else array.cast(kind)


def _small_type(kind: ArrowType) -> ArrowType:
    if pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_large_binary(kind):
        return pa.binary()
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(_small_type(kind.value_type))
    if pa.types.is_map(kind):
        return pa.map_(_small_type(kind.key_type), _small_type(kind.item_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, _small_type(field.type)) for field in kind])
    return kind


def _without_blanks(array: Array, types: Types, name: str) -> Array:
    """Returns a column whose chars, at any depth, have no blanks at their end, as in the mirror."""
    # Times stay as they are: both sides have them in microseconds.
    kinds = Types(replace(item, kind=TypeKind.LONG) if item.kind in _TIMES else item for item in types)
    return PlainValues(table="", path="", types=kinds, cuts=False, is_near=False).convert(array, 0, name)

from __future__ import annotations

from compactor.tables.writing.row_change import Changed, RowChangeKind


def test_the_kinds_that_write_a_row_come_last() -> None:
    """Rows are sorted and picked by it: what is at least an update is written."""
    assert sorted(RowChangeKind) == [
        RowChangeKind.NOTHING,
        RowChangeKind.DELETE,
        RowChangeKind.UPDATE,
        RowChangeKind.INSERT,
    ]


def test_a_statement_has_changed_what_its_writers_have() -> None:
    assert Changed.total([Changed(deleted=1), Changed(deleted=2, updated=3, inserted=4)]) == Changed(
        deleted=3, updated=3, inserted=4
    )
    assert Changed.total([]) == Changed()

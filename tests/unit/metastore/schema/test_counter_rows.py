from __future__ import annotations

from sqlalchemy import insert, select

from compactor.metastore.metastore import Metastore
from compactor.metastore.schema.counter_rows import try_insert
from compactor.metastore.schema.tables import NEXT_WRITE_ID

N = NEXT_WRITE_ID.c


def test_the_key_decides_and_the_transaction_goes_on(metastore: Metastore) -> None:
    def row(table: str, following: int) -> bool:
        values = {"NWI_DATABASE": "d", "NWI_TABLE": table, "NWI_NEXT": following}
        return try_insert(conn, insert(NEXT_WRITE_ID).values(values))

    with metastore.database.write() as conn:
        assert row("t", 2)
        assert not row("t", 9)
        assert row("u", 3)
    with metastore.database.read() as conn:
        assert conn.execute(select(N.NWI_TABLE, N.NWI_NEXT).order_by(N.NWI_TABLE)).all() == [("t", 2), ("u", 3)]

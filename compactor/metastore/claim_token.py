"""The token by which a claim on a directory names its metastore (PROTOCOL 11.13).

The token is a row of AUX_TABLE, created once, so it moves and is restored with the tables. Hive never reads it.
"""

from __future__ import annotations

import uuid
from contextlib import suppress

from sqlalchemy import delete, insert, select

from compactor.base.errors import DatabaseUnavailable
from compactor.database.engine import Database, retried
from compactor.metastore.mutex import PREFIX
from compactor.metastore.schema.counter_rows import try_insert
from compactor.metastore.schema.tables import AUX_TABLE

_AUX = AUX_TABLE.c
_TOKEN = f"{PREFIX}claims"
_PROBE = f"{PREFIX}probe:"


class ClaimToken:
    """Reads and creates the token of one metastore.

    It is read each time, because a database may be replaced while a process runs. If the database was restored to a
    state without a token, the process writes the token back that it knows.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known: str | None = None

    def read(self) -> str | None:
        """Returns the token; None before the first claim."""
        return self._stored() or self._known

    def get_or_create(self) -> str:
        """Returns the token, and creates it if it does not exist."""
        return self._stored() or self._create()

    def restore(self, token: str) -> None:
        """Writes ``token`` into a database that was restored to a state without one."""
        self._known = token
        self.get_or_create()

    @retried
    def _create(self) -> str:
        with self._database.write() as conn:
            try_insert(
                conn, insert(AUX_TABLE).values(MT_KEY1=_TOKEN, MT_KEY2=0, MT_COMMENT=self._known or uuid.uuid4().hex)
            )
        token = self._stored()  # another process may have been faster
        assert token is not None
        return token

    def _stored(self) -> str | None:
        query = select(_AUX.MT_COMMENT).where(_AUX.MT_KEY1 == _TOKEN, _AUX.MT_KEY2 == 0)
        with self._database.read() as conn:
            token = conn.execute(query).scalar()
        if token is not None:
            self._known = str(token)
        return None if token is None else str(token)

    def is_in_same_database(self, other: ClaimToken) -> bool:
        """Returns true if ``other`` reads the same database, whatever its URL.

        A row written here then appears there.

        A copy of this database has the same token but is another database. A read-only database cannot show the
        difference, and then the answer is yes. This creates no token, because a restored database gets its former one.
        """
        if (
            self._stored() != other._stored() and self._stored() != other._stored()
        ):  # read twice: it may be created in between
            return False
        if self._database.read_only:
            return self._stored() is not None
        probe = _PROBE + uuid.uuid4().hex
        with self._database.write() as conn:
            conn.execute(insert(AUX_TABLE).values(MT_KEY1=probe, MT_KEY2=0))
        try:
            return other._shows(probe)
        finally:
            with suppress(DatabaseUnavailable), self._database.write() as conn:
                conn.execute(delete(AUX_TABLE).where(_AUX.MT_KEY1 == probe))

    def _shows(self, key: str) -> bool:
        with self._database.read() as conn:
            return conn.execute(select(_AUX.MT_KEY1).where(_AUX.MT_KEY1 == key)).first() is not None

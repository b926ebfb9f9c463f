"""The tables of the first release."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_MYSQL: dict[str, Any] = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}


def _key(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True, autoincrement=True)


def _count(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger, nullable=False)


def upgrade() -> None:
    _batches()
    _runs()
    _decisions()
    _sightings()


def _batches() -> None:
    op.create_table(
        "COMPACTOR_BATCHES",
        _key("BATCH_ID"),
        sa.Column("METASTORE", sa.String(128), nullable=False),
        sa.Column("POOL", sa.String(128)),
        sa.Column("QUEUE", sa.String(256)),
        sa.Column("CONF", sa.Text, nullable=False),
        sa.Column("STATE", sa.String(16), nullable=False),
        sa.Column("ATTEMPT", sa.Integer, nullable=False),
        sa.Column("DRIVER", sa.String(256)),
        sa.Column("APPLICATION_ID", sa.String(256)),
        _count("RESERVED_UNTIL"),
        _count("PLANNED_AT"),
        sa.Column("STARTED_AT", sa.BigInteger),
        sa.Column("ENDED_AT", sa.BigInteger),
        sqlite_autoincrement=True,
        **_MYSQL,
    )
    op.create_index("COMPACTOR_BATCHES_STATE_IDX", "COMPACTOR_BATCHES", ["METASTORE", "STATE"])
    batch = sa.ForeignKey("COMPACTOR_BATCHES.BATCH_ID")
    op.create_table(
        "COMPACTOR_BATCH_ENTRIES",
        sa.Column("BATCH_ID", sa.BigInteger, batch, primary_key=True, autoincrement=False),
        sa.Column("ENTRY_ID", sa.BigInteger, primary_key=True, autoincrement=False),
        **_MYSQL,
    )


def _runs() -> None:
    op.create_table(
        "COMPACTOR_RUNS",
        _key("RUN_ID"),
        sa.Column("METASTORE", sa.String(128), nullable=False),
        _count("ENTRY_ID"),
        sa.Column("DB_NAME", sa.String(128), nullable=False),
        sa.Column("TABLE_NAME", sa.String(256), nullable=False),
        sa.Column("PART_NAME", sa.String(767)),
        sa.Column("TYPE", sa.String(16), nullable=False),
        sa.Column("TXN_ID", sa.BigInteger),
        sa.Column("WORKER_ID", sa.String(128)),
        _count("DIRECTORIES_BEFORE"),
        _count("DIRECTORIES_AFTER"),
        _count("FILES_BEFORE"),
        _count("FILES_AFTER"),
        _count("BYTES_BEFORE"),
        _count("BYTES_AFTER"),
        _count("ROWS_IN"),
        _count("ROWS_OUT"),
        _count("STRIPES_COPIED"),
        _count("STRIPES_REENCODED"),
        _count("STRIPES_DROPPED"),
        sa.Column("SECONDS", sa.Double, nullable=False),
        _count("ENDED_AT"),
        sqlite_autoincrement=True,
        **_MYSQL,
    )
    op.create_index("COMPACTOR_RUNS_ENTRY_IDX", "COMPACTOR_RUNS", ["METASTORE", "ENTRY_ID"])


def _decisions() -> None:
    op.create_table(
        "COMPACTOR_DECISIONS",
        _key("DECISION_ID"),
        sa.Column("METASTORE", sa.String(128), nullable=False),
        sa.Column("ROLE", sa.String(16), nullable=False),
        _count("PASS_AT"),
        sa.Column("DB_NAME", sa.String(128), nullable=False),
        sa.Column("TABLE_NAME", sa.String(256), nullable=False),
        sa.Column("PART_NAME", sa.String(767)),
        sa.Column("OUTCOME", sa.String(64), nullable=False),
        sa.Column("BECAUSE", sa.Text, nullable=False),
        sa.Column("NUMBERS", sa.Text, nullable=False),
        sqlite_autoincrement=True,
        **_MYSQL,
    )
    op.create_index("COMPACTOR_DECISIONS_ENTITY_IDX", "COMPACTOR_DECISIONS", ["METASTORE", "DB_NAME", "TABLE_NAME"])
    op.create_index("COMPACTOR_DECISIONS_PASS_IDX", "COMPACTOR_DECISIONS", ["METASTORE", "PASS_AT"])


def _sightings() -> None:
    op.create_table(
        "COMPACTOR_SIGHTINGS",
        sa.Column("METASTORE", sa.String(128), primary_key=True),
        sa.Column("ENTRY_ID", sa.BigInteger, primary_key=True, autoincrement=False),
        _count("NEWEST_TXN_ID"),
        **_MYSQL,
    )

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import delete, insert, select, update

from compactor.metastore.tables import AUX_TABLE, MATERIALIZATION_REBUILD_LOCKS, MIN_HISTORY_LEVEL, TXNS
from compactor.metastore.txn_rows import TxnType
from compactor.service.housekeeper import TASKS, keep_house, shortest_interval_ms
from compactor.service.site import Site
from tests.support.tables import insert as insert_rows
from tests.support.tables import make_table, with_settings

NAMES = tuple(task.name for task in TASKS)


def test_every_task_at_once_when_a_person_asks(deployment: Site) -> None:
    assert [keep_house(deployment).tasks, keep_house(deployment).tasks] == [NAMES, NAMES]


def test_each_task_at_its_own_interval(deployment: Site) -> None:
    """Hive's intervals, over all processes: what one has just done another leaves."""
    assert keep_house(deployment, due_only=True).tasks == NAMES
    assert keep_house(deployment, due_only=True).tasks == ()
    hasty = with_settings(deployment, hive_metastore_compaction_housekeeper_interval="0s")
    with hasty.metastore.database.write() as conn:
        conn.execute(delete(AUX_TABLE).where(AUX_TABLE.c.MT_KEY1 == "Compactor:housekeeper:compactions"))
    assert keep_house(hasty, due_only=True).tasks == ("compactions",)
    assert keep_house(hasty, due_only=True).tasks == ("compactions",)


def test_intervals_are_hives(deployment: Site) -> None:
    assert [task.interval_ms(deployment.settings) for task in TASKS] == [60_000, 300_000, 150_000]
    assert shortest_interval_ms(deployment.settings) == 60_000


@pytest.mark.parametrize("mode", ["observe", "request", "compact"])
def test_below_clean_hive_keeps_its_own_house(mode: str, deployment: Site) -> None:
    done = keep_house(with_settings(deployment, compactor_mode=mode), due_only=True)
    assert (done.acted, done.tasks) == (False, ())


def test_rows_that_somebody_left(deployment: Site, warehouse: Path) -> None:
    """What holds cleaners back for transactions that are long over goes."""
    insert_rows(deployment, make_table(deployment, warehouse), [1])
    with deployment.metastore.database.write() as conn:
        conn.execute(insert(MIN_HISTORY_LEVEL).values(MHL_TXNID=0, MHL_MIN_OPEN_TXNID=0))
        row = {"MRL_TXN_ID": 0, "MRL_DB_NAME": "d", "MRL_TBL_NAME": "v", "MRL_LAST_HEARTBEAT": 0}
        conn.execute(insert(MATERIALIZATION_REBUILD_LOCKS).values(**row))
    done = keep_house(deployment)
    assert (done.min_history_purged, done.rebuild_locks_purged) == (1, 1)
    with deployment.metastore.database.read() as conn:
        assert conn.execute(select(MIN_HISTORY_LEVEL)).all() == []


def test_replications_transactions_have_a_time_out_of_their_own(deployment: Site) -> None:
    """hive.repl.txn.timeout: 11 days unless the site says otherwise."""
    [txn] = deployment.metastore.transactions.open("u", "h", type=TxnType.REPL_CREATED)
    with deployment.metastore.database.write() as conn:
        conn.execute(update(TXNS).values(TXN_LAST_HEARTBEAT=TXNS.c.TXN_LAST_HEARTBEAT - 12 * 86_400_000))
    keep_house(with_settings(deployment, hive_repl_txn_timeout="13d"))
    assert deployment.metastore.transactions.state(txn) == "o"
    keep_house(deployment)
    assert deployment.metastore.transactions.state(txn) == "a"

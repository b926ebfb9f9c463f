from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path

from sqlalchemy import insert, select, update

from compactor.base.errors import Refused
from compactor.compaction.queue_entry import Entity, Request
from compactor.compaction.states import CompactionType
from compactor.metastore.catalog.embedded import NewTable
from compactor.metastore.catalog.values import Column
from compactor.metastore.metastore import Metastore
from compactor.metastore.mutex import lock_scheduler
from compactor.metastore.schema.tables import COMPACTION_QUEUE, NEXT_COMPACTION_QUEUE_ID
from tests.support.patience import PATIENCE
from tests.support.sizes import sized

PROCESSES, ROUNDS = sized(short=8, whole=16), 3
ROOT = Path(__file__).parents[2]


def test_many_processes_get_nothing_twice(metastore: Metastore, url: str, tmp_path: Path) -> None:
    """PROTOCOL 9: counters, claims and exclusive locks hold across processes (BEGIN IMMEDIATE, row locks)."""
    metastore.embedded_catalog.create_table(NewTable("default", "t", "/warehouse/t", [Column(name="a", type="int")]))
    total = PROCESSES * ROUNDS
    wanted = total - 5  # fewer than attempts: the last claims find nothing
    requested = [
        metastore.requests.request(
            Request(
                entity=Entity(database="default", table="t", partition=f"p={number}"),
                type=CompactionType.MINOR,
                initiator="compactor-test",
            )
        )
        for number in range(wanted)
    ]
    counter = tmp_path / "counter"
    counter.write_text("0")
    hammer = Path(__file__).with_name("hammer.py")
    done = subprocess.run(
        [sys.executable, str(hammer), url, str(PROCESSES), str(ROUNDS), str(counter)],
        capture_output=True,
        text=True,
        timeout=PATIENCE + 60,  # it speaks first
        check=False,
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
    got = json.loads(done.stdout)
    assert got["write_ids"] == list(range(1, total + 1))
    # where ids are drawn early, one whose row came too late is aborted and its number is left out
    assert len(set(got["txns"])) == total
    assert got["locks"] == list(range(1, total + 1))
    assert got["claims"] == requested
    assert counter.read_text() == str(total)


def test_a_request_waits_while_hive_makes_up_its_mind(metastore: Metastore) -> None:
    """Hive looks for a request of the same entity, and enters its own later: only AUX_TABLE's CompactionScheduler, which
    it holds meanwhile, keeps others out in between. Two requests would be two compactions of one directory at once.
    """
    metastore.embedded_catalog.create_table(NewTable("default", "t", "/warehouse/t", [Column(name="a", type="int")]))
    entity = Entity(database="default", table="t")
    asked = Request(entity=entity, type=CompactionType.MAJOR, initiator="compactor-test")
    for _ in range(2):  # the row is not there yet, then it is
        answers: list[object] = []

        def ask(answers: list[object] = answers) -> None:
            try:
                answers.append(metastore.requests.request(asked))
            except Refused as error:
                answers.append(error)

        thread = threading.Thread(target=ask)
        with metastore.database.write() as conn:
            lock_scheduler(conn, metastore.dialect)
            assert conn.execute(select(COMPACTION_QUEUE.c.CQ_ID)).all() == []
            thread.start()
            thread.join(0.3)
            number = conn.execute(select(NEXT_COMPACTION_QUEUE_ID.c.NCQ_NEXT)).scalar_one()
            conn.execute(update(NEXT_COMPACTION_QUEUE_ID).values(NCQ_NEXT=number + 1))
            hives = {"CQ_ID": number, "CQ_DATABASE": "default", "CQ_TABLE": "t", "CQ_STATE": "i", "CQ_TYPE": "a"}
            conn.execute(insert(COMPACTION_QUEUE).values(**hives))
        thread.join(PATIENCE)
        [answer] = answers
        assert isinstance(answer, Refused), answer
        metastore.claims.abort_request(number)

"""Hive dies and comes back while one of our workers is at work."""

from __future__ import annotations

import socket

from compactor.batches.assembly import list_claimable_ids
from compactor.batches.driver import run_entries
from compactor.compaction.states import State
from compactor.worker.ending import Result
from tests.support import live_hive, servers
from tests.support.beside import TRANSACTIONAL, Beside, Meanwhile


def test_a_restart_of_hive_takes_nothing_of_ours_back(
    beside: Beside, place: tuple[live_hive.Place, servers.Server]
) -> None:
    """PROTOCOL 6: what workers of its own host held Hive queues again as soon as it is back; ours bear another name."""
    for name in ("held_by_us", "held_by_hive"):
        beside.hive.sql(f"create table {name} (a int, b string) {TRANSACTIONAL}")
        for key in (1, 2):
            beside.hive.sql(f"insert into {name} values ({key}, 'row {key}')")
    beside.hive_request("held_by_hive", "major")
    [theirs] = beside.queue()
    worker = f"{socket.gethostname()}-42"
    beside.sql(f"""UPDATE "COMPACTION_QUEUE" SET "CQ_STATE" = 'w', "CQ_WORKER_ID" = '{worker}', "CQ_START" = 1""")
    beside.ours("--set", "compactor.mode=clean", "compact", "default.held_by_us")
    seen: list[tuple[str | None, State]] = []

    def restart(check: object) -> None:
        beside.restart(place[0])
        beside.hive.do("initiator", session="roles")  # where it takes its own back
        seen.extend((entry.worker_id, entry.state) for entry in beside.queue())

    ours = [number for number in list_claimable_ids(beside.site) if number != theirs.id]
    [done] = run_entries(beside.site, ours, Meanwhile(restart)).outcomes
    assert seen == [(None, State.INITIATED), (done.worker_id, State.WORKING)]
    assert done.result is Result.COMPACTED
    beside.hive_work()
    beside.hive_clean()
    assert beside.queue() == []
    for name in ("held_by_us", "held_by_hive"):
        beside.rows(name, ["1\trow 1", "2\trow 2"])
        assert [entry.state for entry in beside.history(name)] == [State.SUCCEEDED]

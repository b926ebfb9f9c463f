"""The doctor's checks of a metastore, and the blockers of its cleaner: each check is seen to trip on every database."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import insert, update

from compactor.answers.show_rows import show_blockers
from compactor.base.ids import TxnId, WriteId
from compactor.batches.assembly import list_claimable_ids
from compactor.batches.driver import run_entries
from compactor.compaction.queue_entry import Entity, Request
from compactor.compaction.states import CompactionType
from compactor.database import privileges
from compactor.doctor import checks
from compactor.doctor import metastore_checks as doctor_metastore
from compactor.doctor.server_checks import check_servers
from compactor.locking.lock_types import LockRequest, LockType
from compactor.metastore.metastore import Metastore, open_metastore
from compactor.metastore.schema import tables as t
from compactor.metastore.transactions.transaction_rows import TxnType
from compactor.requests.request import request_compaction
from compactor.rewrite.run.runner import InProcessRunner
from compactor.settings.precedence import Settings
from compactor.site.finding import Finding, Level
from compactor.site.hive_roles import LEADERS
from compactor.site.site import Site
from compactor.state.state_database import OwnState, open_state
from compactor.state.state_tables import metadata
from compactor.state.state_upgrade import init
from compactor.storage.local import LocalStorage
from tests.support import servers
from tests.support.places import Place
from tests.support.tables import insert as insert_rows
from tests.support.tables import make_table, with_settings

ENTITY = Entity(database="default", table="t")
DAY = 86_400_000


@pytest.fixture
def site(metastore: Metastore, state: OwnState) -> Site:
    return with_settings(Site.here("default", metastore, state, LocalStorage(), Settings.of()))


def found(site: Site, subject: str) -> Finding:
    (finding,) = [f for f in checks.doctor(site) if f.subject == subject]
    return finding


def test_a_sound_metastore(site: Site) -> None:
    subjects = ("database", "schema", "clock", "privileges", "hive's roles", "protections", "queue", "housekeeping")
    assert {found(site, subject).level for subject in subjects} == {Level.OK}
    assert found(site, "schema").found == f"version {site.metastore.schema_version}"


def test_clocks_that_differ(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time
    monkeypatch.setattr(doctor_metastore.time, "time", lambda: now() + 60)
    finding = found(site, "clock")
    assert finding.level is Level.WARN
    skew = int(finding.found.split()[4])
    assert 50_000 < skew <= 61_000


def test_tables_that_grow(site: Site) -> None:
    for _ in range(2):
        [txn] = site.metastore.transactions.open("u", "h")
        write_id = site.metastore.write_ids.allocate(txn, "default", "t")
        site.metastore.write_ids.add_component(txn, ENTITY, "i", write_id)
        site.metastore.transactions.commit(txn)
    prefix = "hive_compactor_{}_record_threshold_"
    for name, table in (
        ("completed_txn_components", "COMPLETED_TXN_COMPONENTS"),
        ("txn_to_writeid", "TXN_TO_WRITE_ID"),
    ):
        low = {prefix.format(name) + "warning": "1"}
        warned = found(with_settings(site, **low), "housekeeping")
        assert (warned.level, f"{table} has 2 rows" in warned.found) == (Level.WARN, True)
        failed = found(with_settings(site, **low, **{prefix.format(name) + "error": "1"}), "housekeeping")
        assert failed.level is Level.FAIL


def test_history_that_somebody_left(site: Site) -> None:
    """A row of MIN_HISTORY_LEVEL without its transaction holds back Hive's cleaner for ever."""
    [ended, _] = site.metastore.transactions.open("u", "h", count=2)
    site.metastore.transactions.abort(ended, "x")
    with site.metastore.database.write() as conn:
        conn.execute(insert(t.MIN_HISTORY_LEVEL).values(MHL_TXNID=ended, MHL_MIN_OPEN_TXNID=ended))
        conn.execute(update(t.TXNS).values(TXN_STARTED=1))
    finding = found(site, "housekeeping")
    assert (finding.level, finding.found[:30]) == (Level.WARN, "1 rows of MIN_HISTORY_LEVEL be")


def requested(site: Site) -> int:
    return site.metastore.requests.request(
        Request(entity=ENTITY, type=CompactionType.MAJOR, initiator="compactor-test")
    )


@pytest.mark.usefixtures("hive4")
@pytest.mark.parametrize(
    ("values", "subject", "said"),
    [
        ({"CQ_ENQUEUE_TIME": 1}, "requests", "waiting for a worker for too long: 1 (default.t)"),
        ({"CQ_STATE": "r", "CQ_COMMIT_TIME": 1}, "cleaning", "ready for cleaning for too long: 1 (default.t)"),
        ({"CQ_STATE": "w", "CQ_WORKER_ID": "compactor-x", "CQ_START": 1}, "compaction 1", "to a lost worker"),
    ],
)
def test_entries_that_are_stuck(values: dict[str, object], subject: str, said: str, site: Site) -> None:
    assert requested(site) == 1
    assert found(site, "queue").level is Level.OK
    with site.metastore.database.write() as conn:
        conn.execute(update(t.COMPACTION_QUEUE).values(**values))
    finding = found(site, subject)
    assert (finding.level, said in finding.found) == (Level.WARN, True)
    assert not [f for f in checks.doctor(site) if f.subject == "queue"]


@pytest.mark.usefixtures("hive4")
def test_an_entry_that_contradicts_its_transaction(site: Site) -> None:
    """PROTOCOL 5: both commit or neither, so somebody else wrote one of them; no pass can know which."""
    number = requested(site)
    entry = site.metastore.claims.claim("compactor-x", "1", pool_timeout_ms=0)
    assert entry is not None
    [txn] = site.metastore.transactions.open("u", "h", type=TxnType.COMPACTION, agent="compactor-x")
    site.metastore.claims.record(entry, "compactor-x", txn, None, WriteId(1))
    with site.metastore.database.write() as conn:
        conn.execute(update(t.TXNS).values(TXN_STATE="c"))
    finding = found(site, f"compaction {number}")
    assert (finding.level, f"but its transaction {txn} is committed" in finding.found) == (Level.FAIL, True)


def test_transactions_that_stay_open(site: Site) -> None:
    [txn] = site.metastore.transactions.open("ann", "laptop")
    with site.metastore.database.write() as conn:
        conn.execute(update(t.TXNS).values(TXN_STARTED=site.metastore.now_ms() - 2 * DAY))
    finding = found(site, "transactions")
    assert (finding.level, f"{txn} of ann@laptop" in finding.found) == (Level.WARN, True)
    lenient = with_settings(site, hive_compactor_oldest_open_txn_threshold_warning="96h")
    assert found(lenient, "transactions").level is Level.OK


def test_what_holds_while_hives_own_cleaner_runs(site: Site) -> None:
    """PROTOCOL 7.5: a reader's lease is its row of MIN_HISTORY_LEVEL or MIN_HISTORY_WRITE_ID; quarantine and undo are none
    of Hive's business."""
    with site.metastore.database.write() as conn:
        conn.execute(insert(t.AUX_TABLE).values(MT_KEY1="Cleaner", MT_KEY2=0))
    assert found(site, "protections").level is Level.OK
    lease = LockRequest(database=LEADERS, table="metastore_housekeeping", type=LockType.EXCL_WRITE)
    site.metastore.locks.acquire(TxnId(0), [lease], "hive", "hms")
    assert found(site, "hive's cleaner").level is Level.WARN
    finding = found(site, "protections")
    assert finding.level is Level.WARN
    assert "open transactions hold back Hive's cleaner by their rows of MIN_HISTORY_LEVEL" in finding.found
    later = found(with_settings(site, hive_txn_use_minhistorywriteid="true"), "protections").found
    assert "a query that began before a compaction was committed does not hold it back" in later
    bare = with_settings(site, hive_txn_use_minhistorylevel="false", compactor_quarantine="1h")
    said = found(bare, "protections").found
    assert "leave no rows of MIN_HISTORY_LEVEL" in said
    assert "quarantine does not cover directories that Hive's cleaner removes" in said


def test_a_user_that_may_only_read(place: Place) -> None:
    """Each right that a mode needs and the user lacks is named; observing needs none. Nothing is written."""
    url = place.user("reader", place.may_read())
    for who, lacks in ((place.url, False), (url, True)):
        opened = open_metastore("default", who, read_only=True)
        site = with_settings(Site.here("default", opened, None, LocalStorage(), Settings.of()))
        named = lacking(opened)
        assert ("INSERT on TXNS" in named, "DELETE on HIVE_LOCKS" in named) == (lacks, lacks)
        finding = found(site, "privileges")
        assert finding.level is (Level.FAIL if lacks else Level.OK)
        assert ("INSERT on" in finding.found) is lacks
        opened.close()


def test_a_user_that_may_not_tell_of_compactions(place: Place) -> None:
    """A warning, and only where Hive keeps a log: compactions go on without."""
    url = place.user("reader", place.may_read())
    opened = open_metastore("default", url, read_only=True)
    site = with_settings(Site.here("default", opened, None, LocalStorage(), Settings.of()))
    assert not [finding for finding in doctor_metastore.check_rights(site) if finding.subject == "notification log"]
    quote = '"' if place.server.kind == "postgresql" else ""
    place.server.sql(f"UPDATE {quote}NOTIFICATION_SEQUENCE{quote} SET {quote}NEXT_EVENT_ID{quote} = 2;", place.name)
    [finding] = [finding for finding in doctor_metastore.check_rights(site) if finding.subject == "notification log"]
    assert finding.level is Level.WARN
    for right in ("INSERT on NOTIFICATION_LOG", "UPDATE on NOTIFICATION_SEQUENCE", "UPDATE on SEQUENCE_TABLE"):
        assert right in finding.found
    opened.close()


def lacking(opened: Metastore) -> tuple[str, ...]:
    return privileges.missing(opened.database, opened.dialect.transaction_tables)


def test_one_right_that_is_missing_is_named(place: Place) -> None:
    """PostgreSQL's sequences have rights of their own, without which no row gets its number."""
    table = '"WRITE_SET"' if place.server.kind == "postgresql" else "WRITE_SET"
    tables = "ALL TABLES IN SCHEMA public" if place.server.kind == "postgresql" else f"{place.name}.*"
    url = place.user("reader", f"GRANT SELECT, INSERT, UPDATE, DELETE ON {tables}")
    if place.server.kind == "postgresql":
        place.server.sql(f"REVOKE DELETE ON {table} FROM reader;", place.name)
        opened = open_metastore("default", url, read_only=True)
        sequence = "USAGE on sequence TXNS_TXN_ID_seq"
        assert lacking(opened) == ("DELETE on WRITE_SET", sequence)
        place.server.sql("GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO reader;", place.name)
        assert lacking(opened) == ("DELETE on WRITE_SET",)
    else:
        opened = open_metastore("default", url, read_only=True)
        assert lacking(opened) == ()
    opened.close()


def test_rights_to_our_own_state_are_checked_too(place: Place) -> None:
    """It may lie in the metastore's database or in another one; here in the same."""
    init(place.url).close()
    is_postgres = place.server.kind == "postgresql"
    url = place.user("reader", place.may_read())
    metastore = open_metastore("default", place.url, read_only=True)
    for who, lacks in ((place.url, False), (url, True)):
        state = open_state(who, read_only=True)
        finding = found(Site.here("default", metastore, state, LocalStorage(), Settings.of()), "state")
        assert finding.level is (Level.FAIL if lacks else Level.OK)
        assert ("INSERT on COMPACTOR_BATCHES" in finding.found) is lacks
        named = privileges.missing(state.database, metadata.tables.values())
        assert ("USAGE on sequence COMPACTOR_BATCHES_BATCH_ID_seq" in named) is (lacks and is_postgres)
        state.close()
    metastore.close()


@pytest.mark.parametrize("place", [name for name in servers.NAMES if "postgresql" not in name], indirect=True)
def test_a_server_that_is_not_alone(place: Place) -> None:
    """Nor in UTC: both are the server's own settings, and concern Hive as much as us."""
    metastore = open_metastore("default", place.url, read_only=True)
    site = Site.here("default", metastore, None, LocalStorage(), Settings.of())
    assert found(site, "server").level is Level.OK
    place.server.sql("SET GLOBAL auto_increment_increment = 2, GLOBAL time_zone = '+02:00';", "mysql")
    try:
        findings = {finding.subject: finding for finding in check_servers(site)}
    finally:
        place.server.sql("SET GLOBAL auto_increment_increment = 1, GLOBAL time_zone = 'SYSTEM';", "mysql")
    assert findings["primaries"].level is Level.WARN
    assert "auto_increment_increment is 2" in findings["primaries"].found
    is_right = "11.8" in place.server.sql("SELECT VERSION();", "mysql")  # which tells equal hours apart
    assert ("time zone" in findings) is not is_right
    assert is_right or "+02:00" in findings["time zone"].found
    metastore.close()


# --- who keeps the cleaner away -------------------------------------------------------------------------------------


def test_blockers_of_what_is_ready_for_cleaning(site: Site, tmp_path: Path) -> None:
    """For each entry: which transaction, of whom, from where, for how long, and the bytes that it holds."""
    table = make_table(site, tmp_path)
    for start in (0, 4):
        insert_rows(site, table, range(start, start + 4))
    assert show_blockers(site) == []
    [reader] = site.metastore.transactions.open("ann", "laptop", agent="query 7")
    with site.metastore.database.write() as conn:
        started = site.metastore.now_ms() - 5_000
        conn.execute(update(t.TXNS).where(reader == t.TXNS.c.TXN_ID).values(TXN_STARTED=started))
    request_compaction(site, table=str(table), type="major")
    run_entries(site, list_claimable_ids(site), InProcessRunner())
    [younger] = site.metastore.transactions.open("bob", "h")
    (row, *others) = show_blockers(site)
    files = [path for path in (tmp_path / "t").glob("delta_*/*") if path.is_file()]
    assert (row.table, row.txnid, row.user, row.host, row.agent_info) == (
        "default.t",
        reader,
        "ann",
        "laptop",
        "query 7",
    )
    assert 5_000 <= row.age_ms < 60_000
    assert row.bytes_waiting == sum(path.stat().st_size for path in files) > 0
    stamped = site.metastore.entries.get(row.compactionid).next_txn_id is not None
    assert [other.txnid for other in others] == ([] if stamped else [younger])
    for txn in (reader, younger):
        site.metastore.transactions.commit(txn)
    assert show_blockers(site) == []


def test_the_checks_go_on_where_one_fails(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    away = replace(site, state=None)
    assert found(away, "state").level is Level.FAIL
    assert found(away, "schema").level is Level.OK

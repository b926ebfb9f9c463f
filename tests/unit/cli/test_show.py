from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from click.testing import CliRunner, Result

from compactor.cli.program import program
from compactor.compaction.quarantine_rules import Quarantined
from compactor.compaction.queue_entry import Entity, Request
from compactor.compaction.states import CompactionType
from compactor.locking.lock_types import LockRequest, LockType
from compactor.metastore.catalog.embedded import NewTable
from compactor.metastore.catalog.values import Column
from compactor.metastore.metastore import Metastore
from compactor.site.site import Site, own_state


@pytest.fixture
def _locked(metastore: Metastore, metastore_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COMPACTOR_METASTORE_URL", metastore_url)
    metastore.embedded_catalog.create_database("default", "/warehouse")
    key = [Column(name="p", type="string")]
    table = metastore.embedded_catalog.create_table(
        NewTable("default", "t", "/w/t", [Column(name="a", type="int")], partition_keys=key)
    )
    metastore.embedded_catalog.add_partition(table, ["a=b"])
    [txn] = metastore.transactions.open("ada", "h")
    requests = [
        LockRequest(database="default", type=LockType.SHARED_READ),
        LockRequest(database="default", table="t", partition="p=a%3Db", type=LockType.EXCLUSIVE),
    ]
    metastore.locks.acquire(txn, requests, "ada", "h")


@pytest.mark.usefixtures("_locked")
def test_changed_settings_and_what_has_no_effect(metastore: Metastore) -> None:
    table = metastore.catalog.table("default", "t")
    for key, value in (("compactor.hive.compactor.delta.num.threshold", "3"), ("Compactor.mode", "observe")):
        table = metastore.embedded_catalog.set_table_parameter(table, key, value)

    def rows(*arguments: str) -> dict[str, tuple[str, str]]:
        done = CliRunner().invoke(program, ["show", "settings", *arguments, "--json"])
        assert done.exit_code == 0, done.output
        return {row["key"]: (row["value"], row["source"]) for row in json.loads(done.stdout)}

    changed = rows("default.t", "--changed")
    assert changed["hive.compactor.delta.num.threshold"] == ("3", "table")
    assert changed["table: Compactor.mode"] == ("", "without effect")
    assert "default" not in {source for _, source in changed.values()}
    assert rows("default.t").keys() > {"hive.compactor.delta.num.threshold", "compactor.mode"}
    assert "hive.compactor.delta.num.threshold" not in rows("--changed")
    assert CliRunner().invoke(program, ["show", "settings", "default.gone"]).exit_code != 0


def shown(*arguments: str) -> Result:
    return CliRunner().invoke(program, ["show", "locks", *arguments])


@pytest.mark.usefixtures("_locked")
@pytest.mark.parametrize(
    ("arguments", "partitions"),
    [
        ((), [None, "p=a%253Db", "p=a%3Db"]),
        (("Default",), [None, "p=a%253Db", "p=a%3Db"]),
        (("default.T",), ["p=a%253Db", "p=a%3Db"]),
        (("default.t", "--partition", "p=a%3Db"), ["p=a%253Db", "p=a%3Db"]),
        (("default.t", "--partition", "p='a=b'", "--extended"), ["p=a%253Db", "p=a%3Db"]),
    ],
)
def test_locks_by_object(arguments: tuple[str, ...], partitions: list[str | None]) -> None:
    """A partition's locks are shown for both forms of its name, whoever took them."""
    done = shown(*arguments, "--json")
    assert done.exit_code == 0, done.output
    assert [row["partition"] for row in json.loads(done.stdout)] == partitions


@pytest.mark.usefixtures("_locked")
def test_locks_as_people_read_them() -> None:
    lines = shown("default").stdout.splitlines()
    assert lines[0].split()[:4] == ["lockid", "database", "table", "partition"]
    assert "held_ms" not in lines[0]
    assert "held_ms" in shown("default", "--extended").stdout.splitlines()[0]
    nowhere = shown("defualt")
    assert (nowhere.exit_code, "did you mean default.*?" in nowhere.stderr) == (2, True)


@pytest.mark.usefixtures("_locked")
def test_a_partition_needs_its_table() -> None:
    assert (shown("--partition", "p=1").exit_code, shown("default", "--partition", "p=1").exit_code) == (2, 2)
    missing = shown("default.t", "--partition", "p=zzz")
    assert missing.exit_code == 2
    assert "p=zzz" in missing.stderr


@pytest.mark.usefixtures("_locked")
def test_compactions_have_hives_filters(metastore: Metastore) -> None:
    for table in ("t", "u"):
        entity = Entity(database="default", table=table)
        metastore.requests.request(Request(entity=entity, type=CompactionType.MINOR, initiator="compactor-test"))

    def asked(*arguments: str) -> list[str]:
        done = CliRunner().invoke(program, ["show", "compactions", "--json", *arguments])
        assert done.exit_code == 0, done.output
        return sorted(row["tabname"] for row in json.loads(done.stdout))

    assert asked() == asked("Default") == asked("--type", "minor") == asked("--state", "initiated") == ["t", "u"]
    assert asked("default.U") == ["u"]
    assert asked("--id", "77") == asked("default.t", "--partition", "p='a=b'") == []
    assert asked("--limit", "1") == ["t"]


@pytest.mark.usefixtures("_locked")
@pytest.mark.parametrize("listed", ["compactions", "history"])
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("defalt.t",), "table defalt.t is not in the metastore; did you mean default.t?"),
        (("default.t", "--partition", "p=1"), "has no partition 'p=1'"),
        (("--state", "workin"), "state 'workin': expected one of initiated, working"),
        (("--type", "mayor"), "did you mean major?"),
        (("--pool", "nightly"), "pool 'nightly': it is not configured, and no compaction has it"),
    ],
)
def test_a_filter_that_names_nothing_is_an_error(listed: str, arguments: tuple[str, ...], said: str) -> None:
    """An empty list would say that nothing is under way."""
    done = CliRunner().invoke(program, ["show", listed, *arguments])
    assert done.exit_code == 2
    assert said in done.stderr


@pytest.mark.usefixtures("_locked")
def test_compactions_in_the_order_of_a_column(metastore: Metastore) -> None:
    for table in ("t", "u"):
        entity = Entity(database="default", table=table)
        metastore.requests.request(Request(entity=entity, type=CompactionType.MINOR, initiator="compactor-test"))
    done = CliRunner().invoke(program, ["show", "compactions", "--json", "--order-by", "tabname desc", "--limit", "1"])
    assert [row["tabname"] for row in json.loads(done.stdout)] == ["u"]
    wrong = CliRunner().invoke(program, ["show", "compactions", "--order-by", "nothing"])
    assert (wrong.exit_code, "columns are compactionid, dbname" in wrong.stderr) == (2, True)


@pytest.mark.usefixtures("_locked")
def test_transactions_with_hives_columns() -> None:
    done = CliRunner().invoke(program, ["show", "transactions", "--json"])
    (row,) = json.loads(done.stdout)
    columns = ("txnid", "state", "startedtime", "lastheartbeattime", "user", "host", "type", "agent_info")
    assert tuple(row) == columns
    assert (row["state"], row["user"], row["host"], row["type"]) == ("OPEN", "ada", "h", "DEFAULT")
    plain = CliRunner().invoke(program, ["show", "transactions"]).stdout.splitlines()
    assert plain[0].split() == [*columns[:-1]]  # what no row has is left out
    assert len(plain) == 2


def test_alarms(metastore: Metastore, metastore_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COMPACTOR_METASTORE_URL", metastore_url)
    key = "hive.compactor.oldest.open.txn.threshold.warning=1ms"

    def shown(*arguments: str) -> Result:
        return CliRunner().invoke(program, ["--set", key, "show", "alarms", *arguments])

    assert shown().stdout == "nothing is amiss\n"
    metastore.transactions.open("ada", "h")
    (found,) = json.loads(shown("--json").stdout)
    assert (found["name"], found["level"], found["limit"]) == ("oldest_open_transaction", "warn", 1)
    assert "oldest_open_transaction" in shown().stdout


@pytest.mark.usefixtures("_locked")
def test_what_is_in_quarantine(deployment: Site) -> None:
    """PROTOCOL 11.15."""
    for number, table in enumerate(("t", "u"), start=1):
        one = Quarantined(
            entry_id=number,
            entity=Entity(database="default", table=table),
            location="/w",
            since=1000,
            until=86_400_000,
            bytes=1_500_000,
            names=("base_0000001", "delta_0000002_0000002_0000"),
        )
        own_state(deployment).quarantines.keep(deployment.name, one)
    every = CliRunner().invoke(program, ["show", "quarantine"])
    assert every.exit_code == 0, every.output
    assert every.stdout.splitlines()[0].split() == [
        *("compactionid", "dbname", "tabname", "directories", "bytes", "since", "until"),
    ]
    assert (
        "base_0000001, delta_0000002_0000002_0000  1.5 MB  1970-01-01T00:00:01Z  1970-01-02T00:00:00Z" in every.stdout
    )
    (row,) = json.loads(CliRunner().invoke(program, ["show", "quarantine", "default.U", "--json"]).stdout)
    assert (row["compactionid"], row["until"]) == (2, 86_400_000)
    assert CliRunner().invoke(program, ["show", "quarantine", "--id", "9"]).stdout == "nothing is in quarantine\n"


def test_no_table_that_matches_is_not_no_table(compactor: Callable[..., Result], metastore: Metastore) -> None:
    assert compactor("show", "tables").stdout == "there are no transactional tables\n"
    assert compactor("show", "tables", "--type", "major").stdout == "no transactional table matches\n"

"""The doctor's findings on log-ins; those by Kerberos itself are in tests/cluster."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from compactor.base.errors import StorageError
from compactor.doctor import log_in_check as module
from compactor.doctor.log_in_check import check_log_in
from compactor.metastore.catalog.embedded import NewTable
from compactor.metastore.catalog.values import Column
from compactor.site.finding import Finding, Level
from compactor.site.site import Site
from compactor.storage.log_in import LogIn, Tickets
from compactor.storage.store_options import StoreOptions
from compactor.storage.stores import Stores
from tests.support.tables import with_settings

PLAIN = LogIn(cluster="hdfs://nn", user="hive", how="by a name", tickets=None, keytab=None, clock_ahead_s=0.0)


def findings(site: Site, monkeypatch: pytest.MonkeyPatch, found: LogIn | StorageError) -> list[Finding]:
    def log_in(options: StoreOptions, authority: str) -> LogIn:
        if isinstance(found, StorageError):
            raise found
        return replace(found, cluster=f"hdfs://{authority}")

    monkeypatch.setattr(module, "log_in", log_in)
    return list(check_log_in(replace(site, storage=Stores(StoreOptions.from_tables({"hdfs://nn": {"user": "hive"}})))))


def test_without_hdfs_there_is_nothing_to_say(deployment: Site) -> None:
    assert list(check_log_in(deployment)) == []


def test_a_name_that_nobody_checks(deployment: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    (found,) = findings(deployment, monkeypatch, PLAIN)
    assert (found.level, found.found) == (Level.OK, "hdfs://nn knows us as 'hive', by a name")


def test_a_cluster_that_takes_us_for_nobody(deployment: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    (found,) = findings(deployment, monkeypatch, StorageError("cannot log in to hdfs://nn: Kerberos: no ticket"))
    assert (found.level, found.found) == (Level.FAIL, "cannot log in to hdfs://nn: Kerberos: no ticket")


@pytest.mark.parametrize(("ahead", "warned"), [(59.0, False), (-61.0, True), (250.0, True)])
def test_a_clock_that_differs(deployment: Site, monkeypatch: pytest.MonkeyPatch, ahead: float, warned: bool) -> None:
    found = findings(deployment, monkeypatch, replace(PLAIN, clock_ahead_s=ahead))
    assert [(one.level, one.found) for one in found[1:]] == (
        [(Level.WARN, f"hdfs://nn is {ahead:+.0f} s from this machine")] if warned else []
    )


def test_tickets_that_nobody_renews(deployment: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    tickets = Tickets(principal="hive@EXAMPLE.COM", seconds=1800)
    (found,) = findings(deployment, monkeypatch, replace(PLAIN, tickets=tickets))
    assert (found.level, "the ticket expires in 30 min" in found.found) == (Level.WARN, True)
    (found,) = findings(deployment, monkeypatch, replace(PLAIN, tickets=tickets, keytab="/etc/k"))
    assert (found.level, found.found.endswith("each log-in gets tickets for 30 min")) == (Level.OK, True)


@pytest.mark.parametrize(
    ("settings", "users"),
    [
        ({}, []),
        ({"hive_compactor_run_as_user": "ann"}, ["ann"]),
        ({"compactor_run_as_owner": "true"}, ["somebody"]),
    ],
)
def test_with_doas_each_user_is_tried(
    deployment: Site, warehouse: Path, monkeypatch: pytest.MonkeyPatch, settings: dict[str, str], users: list[str]
) -> None:
    monkeypatch.delenv("HADOOP_TOKEN_FILE_LOCATION", raising=False)
    columns = [Column(name="a", type="int")]
    parameters = {"transactional": "true"}
    table = NewTable("default", "t", str(warehouse / "t"), columns, parameters=parameters, owner="somebody")
    deployment.metastore.embedded_catalog.create_database("default", str(warehouse))
    deployment.metastore.embedded_catalog.create_table(table)

    def log_in(options: StoreOptions, authority: str) -> LogIn:
        user = options.of_place("hdfs", authority).get("proxy_to", "compactor")
        if user == "ann":
            raise StorageError("compactor is not allowed to impersonate ann")
        return replace(PLAIN, user=user)

    monkeypatch.setattr(module, "log_in", log_in)
    options = StoreOptions.from_tables({"hdfs://nn": {"kerberos": True, "doas": True}})
    site = with_settings(replace(deployment, storage=Stores(options)), **settings)
    found = [one for one in check_log_in(site) if one.subject == "proxy user"]
    expected = {"ann": Level.FAIL, "somebody": Level.OK}
    assert [one.level for one in found] == [expected[user] for user in users]
    assert all(user in one.found for one, user in zip(found, users, strict=True))

"""The user as whom a table is compacted (docs/security.md)."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from compactor.base.errors import BadSetting, Refused
from compactor.base.identities import process_user
from compactor.batches.assembly import plan_batches
from compactor.metastore.catalog.values import Table
from compactor.requests.request import request_compaction
from compactor.site.run_as import entries_of_other_users, must_be_ours, must_run_as, run_as
from compactor.site.site import Site, Target
from compactor.storage.capabilities import S3, Capabilities
from compactor.storage.local import LocalStorage
from tests.support.passes import with_storage
from tests.support.tables import entity_of, insert, make_table, with_settings


class Owned(LocalStorage):
    """Directories that belong to ``user``, but for some that belong to others; None is a user without a name."""

    def __init__(self, user: str | None, **others: str | None) -> None:
        super().__init__()
        self._user, self._others = user, others

    def owner(self, path: str) -> str | None:
        return self._others.get(os.path.basename(path), self._user)


class NoOwners(LocalStorage):
    """A store that knows no owners, as object stores."""

    def capabilities(self, path: str) -> Capabilities:
        return S3

    def owner(self, path: str) -> str | None:
        return None


@pytest.fixture
def table(deployment: Site, warehouse: Path) -> Table:
    return make_table(deployment, warehouse)


def target(site: Site, table: Table, owner: str = "") -> Target:
    found = site.target(entity_of(table))
    return replace(found, table=replace(found.table, owner=owner))


def test_nobody_is_impersonated_unless_the_site_says_so(deployment: Site, table: Table) -> None:
    site = with_storage(with_settings(deployment), Owned("ann"))
    assert run_as(site, target(site, table, "ann")) is None


def test_the_sites_user_comes_before_every_owner(deployment: Site, table: Table) -> None:
    site = with_settings(deployment, hive_compactor_run_as_user="hive", compactor_run_as_owner="true")
    assert run_as(with_storage(site, Owned("bob")), target(site, table, "ann")) == "hive"


def test_the_owner_is_the_datas_and_not_the_metastores(deployment: Site, table: Table) -> None:
    site = with_settings(deployment, compactor_run_as_owner="true")
    assert run_as(with_storage(site, Owned("bob")), target(site, table, "root")) == "bob"
    assert run_as(site, target(site, table, "bob")) == process_user()  # whose directory it really is


def test_only_a_store_without_owners_leaves_it_to_the_metastore(deployment: Site, table: Table) -> None:
    site = with_settings(deployment, compactor_run_as_owner="true")
    assert run_as(with_storage(site, NoOwners()), target(site, table, "ann")) == "ann"
    with pytest.raises(Refused, match=f"{table.location} belongs to a user who has no name here; wanted"):
        run_as(with_storage(site, Owned(None)), target(site, table, "ann"))


@pytest.mark.parametrize("owner", ["", "--conf", "-x", "ann b", "ann\n", "a=b", "$(id)"])
def test_no_name_of_a_user_is_refused(deployment: Site, table: Table, owner: str) -> None:
    site = with_storage(with_settings(deployment, compactor_run_as_owner="true"), NoOwners())
    with pytest.raises(Refused, match="wanted the name of a user"):
        run_as(site, target(site, table, owner))
    site = with_settings(deployment, hive_compactor_run_as_user=owner)
    if owner.strip() and owner.strip() != "ann":
        with pytest.raises(Refused, match="wanted the name of a user"):
            run_as(site, target(site, table))


def test_no_property_of_a_table_or_a_request_has_a_say(deployment: Site, warehouse: Path) -> None:
    keys = ("hive.compactor.run.as.user", "metastore.compactor.run.as.user", "compactor.run.as.owner")
    names = [f"{prefix}{key}" for key in keys for prefix in ("", "compactor.", "compactorthreshold.")]
    table = make_table(deployment, warehouse, "mine", **dict.fromkeys(names, "root"))
    insert(deployment, table, [1])
    site = with_settings(deployment, hive_compactor_run_as_user="hive")
    for name in names:
        with pytest.raises(BadSetting, match="a setting of the site"):
            request_compaction(site, table="mine", properties={name: "root"})
        found = site.target(entity_of(table), {name: "root"})
        assert run_as(site, found) == "hive"
        assert not run_as(with_settings(deployment), found)


def test_a_process_that_is_somebody_else_works_for_no_such_site(deployment: Site) -> None:
    must_be_ours(with_settings(deployment))
    must_be_ours(with_settings(deployment, hive_compactor_run_as_user=process_user()))
    with pytest.raises(BadSetting, match=rf"'hive', and this process runs as '{process_user()}'.*compactor submit"):
        must_be_ours(with_settings(deployment, hive_compactor_run_as_user="hive"))


def test_tables_of_others_are_left_to_them(deployment: Site, warehouse: Path) -> None:
    for name in ("mine", "his"):
        made = make_table(deployment, warehouse, name)
        insert(deployment, made, [1])
        insert(deployment, made, [2])
        request_compaction(deployment, table=name, type="major")
    site = with_storage(deployment, Owned(process_user(), his="bob"))
    assert entries_of_other_users(with_settings(site), [1, 2]) == {}
    found = entries_of_other_users(with_settings(site, compactor_run_as_owner="true"), [1, 2])
    assert found == {2: f"default.his: is to be compacted as bob, and this process runs as {process_user()}"}
    assert entries_of_other_users(with_settings(site, compactor_run_as_owner="true"), [2], "bob") == {}


def test_a_batch_is_refused_to_whoever_is_not_wanted(deployment: Site, warehouse: Path) -> None:
    made = make_table(deployment, warehouse)
    for value in (1, 2):
        insert(deployment, made, [value])
    request_compaction(deployment, table="t", type="major")
    site = with_settings(deployment, hive_compactor_run_as_user="hive/host@REALM")
    (planned,) = plan_batches(site)
    for user in ("hive", "hive/host@REALM"):
        must_run_as(site, planned.batch_id, user)
    for user in (None, "root", "hive2", "host", "REALM"):
        with pytest.raises(Refused, match=f"batch {planned.batch_id}: default.t: is to be compacted as hive"):
            must_run_as(site, planned.batch_id, user)
    assert plan_batches(site) == []  # it is still reserved

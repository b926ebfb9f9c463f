"""The doctor's check of log-ins: what is well, each failure, and that nothing has changed in the cluster afterwards."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from compactor.doctor.log_in_check import check_log_in
from compactor.site.finding import Finding, Level
from compactor.site.site import Site
from compactor.storage.stores import Stores
from tests.support.kerberos import REALM
from tests.support.kerberos_hdfs import SecureHdfs, options_of
from tests.support.moved_tables import moved
from tests.support.tables import make_table, with_settings

Check = Callable[..., list[Finding]]


@pytest.fixture
def check(deployment: Site, warehouse: Path, realm: SecureHdfs, top: str) -> Check:
    """The findings on a cluster that a table lies in, reached with these options."""
    realm.kdc.keytab("compactor").chmod(0o600)
    moved(deployment, make_table(deployment, warehouse), Stores(options_of(realm)), top)

    def findings(run_as: str = "", **options: object) -> list[Finding]:
        site = replace(deployment, storage=Stores(options_of(realm, **options)))
        return list(check_log_in(with_settings(site, hive_compactor_run_as_user=run_as)))

    return findings


def test_a_keytab(check: Check, realm: SecureHdfs) -> None:
    before = realm.changes()
    (found,) = check()
    assert found.level is Level.OK
    assert found.found == (
        f"hdfs://{realm.authority} knows us as 'compactor', by Kerberos from keytab {realm.kdc.keytab('compactor')}, "
        f"as compactor@{REALM}; each log-in gets tickets for 10.0 h"
    )
    assert realm.changes() == before


def test_a_keytab_that_everybody_can_read(check: Check, realm: SecureHdfs) -> None:
    realm.kdc.keytab("compactor").chmod(0o644)
    _, found = check()
    assert (found.level, found.subject) == (Level.WARN, "keytab")
    assert found.fix == f"chmod 600 {realm.kdc.keytab('compactor')}"


def test_a_ticket_that_nobody_renews(
    check: Check, realm: SecureHdfs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in realm.kdc.ticket("compactor", tmp_path / "tickets", "-l", "2h").items():
        monkeypatch.setenv(name, value)
    (found,) = check(principal=None, keytab=None)
    assert found.level is Level.WARN
    assert "by Kerberos from the ticket cache, as compactor@" in found.found
    assert "expires in 2.0 h, and nothing renews it here" in found.found


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"principal": None, "keytab": None}, "Kerberos: no ticket: "),
        ({"keytab": "/absent.keytab"}, "Kerberos: the keytab cannot be read: "),
        ({"principal": "nobody"}, "Kerberos: the keytab does not fit the principal: "),
        ({"proxy_to": "stranger"}, "compactor is not allowed to impersonate stranger (refused proxy; "),
        ({"kerberos": None, "principal": None, "keytab": None, "user": "hdfs"}, "write kerberos = true into"),
        ({"kerb_kwargs": {"service": "WEB"}}, "Kerberos: unknown service: "),
    ],
)
def test_what_fails(check: Check, realm: SecureHdfs, options: dict[str, object], said: str) -> None:
    (found,) = check(**options)
    assert found.level is Level.FAIL
    assert f"cannot log in to hdfs://{realm.authority}: " in found.found
    assert said in found.found


def test_whom_we_act_for(check: Check) -> None:
    (found,) = check(proxy_to="hive")
    assert found.level is Level.OK
    assert "knows us as 'hive', by Kerberos from keytab" in found.found
    assert "acting for hive" in found.found


def test_those_as_whom_applications_run(check: Check) -> None:
    _, found = check("hive", doas=True)
    assert (found.level, found.subject) == (Level.OK, "proxy user")
    assert found.found.endswith("lets us act for 'hive'")
    _, found = check("stranger", doas=True)
    assert (found.level, found.subject) == (Level.FAIL, "proxy user")
    assert "hadoop.proxyuser.<user>.groups" in found.found

"""Stores made by ``hadoop credential create`` of Hadoop 3.4.1 (tests/fixtures/jceks)."""

from __future__ import annotations

from pathlib import Path

import pytest

from compactor.base.errors import BadSetting
from compactor.settings.credential_store import DEFAULT_PASSWORD, read_stored_secret

STORES = Path(__file__).resolve().parents[2] / "fixtures" / "jceks"
HIVE = (STORES / "hive.jceks").read_bytes()


@pytest.mark.parametrize(
    ("alias", "wanted"),
    [
        ("javax.jdo.option.ConnectionPassword", "pä ss:w/ord"),
        ("a.first", "one"),
        ("FS.s3a.secret.key", "two"),
        ("a.firs", None),
    ],
)
def test_every_secret_is_found_by_its_alias(alias: str, wanted: str | None) -> None:
    assert read_stored_secret(HIVE, alias, DEFAULT_PASSWORD, "s") == wanted


def test_a_store_with_a_password_of_its_own() -> None:
    locked = (STORES / "locked.jceks").read_bytes()
    assert read_stored_secret(locked, "javax.jdo.option.ConnectionPassword", "secret1", "s") == "other"


@pytest.mark.parametrize("at", [9, 100, len(HIVE) - 1])
def test_damage_is_detected(at: int) -> None:
    damaged = HIVE[:at] + bytes([HIVE[at] ^ 1]) + HIVE[at + 1 :]
    with pytest.raises(BadSetting, match="s: the password is wrong, or the file is damaged"):
        read_stored_secret(damaged, "a.first", DEFAULT_PASSWORD, "s")


@pytest.mark.parametrize("store", [b"", b"\xfe\xed\xfe\xed" + bytes(60)])
def test_another_file_is_refused(store: bytes) -> None:
    with pytest.raises(BadSetting, match="s: not a credential store of Hadoop"):
        read_stored_secret(store, "a", DEFAULT_PASSWORD, "s")

from __future__ import annotations

import os
import pwd

import pytest

from compactor.base.identities import HolderProcess, holder_id, initiator_id, is_compactor, process_user


@pytest.mark.parametrize("host", ["node-1", "a", "h" * 100])
def test_an_id_names_its_process(host: str) -> None:
    holder = holder_id("worker", host)
    process = HolderProcess.from_id(holder)
    assert process is not None
    assert (process.is_on(host), process.process) == (True, os.getpid())
    assert is_compactor(holder)
    assert len(holder) <= 128


def test_ids_of_one_process_differ() -> None:
    assert holder_id("worker", "h") != holder_id("worker", "h")


def test_an_id_of_another_role_or_form_names_no_process() -> None:
    assert HolderProcess.from_id(holder_id("driver", "h"), "worker") is None
    assert HolderProcess.from_id("node-1-42") is None
    assert HolderProcess.from_id(initiator_id("node", "initiator")) is None


def test_hives_ids_are_not_ours() -> None:
    assert not is_compactor("metastore-host-30")
    assert not is_compactor(None)


def test_the_user_is_the_accounts_and_not_the_environments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("USER", "somebody")
    assert process_user() == pwd.getpwuid(os.geteuid()).pw_name


def test_a_user_without_an_account_is_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 4_000_000)
    assert process_user() == "4000000"

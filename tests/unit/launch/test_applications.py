from __future__ import annotations

import os
from pathlib import Path

import pytest

from compactor.base.errors import ClusterUnavailable
from compactor.launch import applications, driver_processes
from compactor.launch.yarn_application import YarnApplication

ID = "application_17_0001"


class Manager:
    """A ResourceManager with two applications of one tag."""

    def __init__(self, state: str = "RUNNING", final: str = "UNDEFINED", said: str = "") -> None:
        self.found = YarnApplication(
            id=ID, state=state, final=final, queue="q", user="u", name="n", diagnostics=said, tags=frozenset({"t"})
        )
        self.killed: list[str] = []

    def application(self, number: str) -> YarnApplication | None:
        return self.found if number == ID else None

    def tagged(self, tag: str) -> tuple[YarnApplication, ...]:
        return (self.found,)

    def driver_output(self, application: YarnApplication) -> str:
        return "" if application.final == "SUCCEEDED" else "2026-11-24 09:00:00,001 ERROR compactor: no database\n"

    def kill(self, number: str) -> bool:
        self.killed.append(number)
        return True


class Away:
    def __getattr__(self, name: str) -> object:
        def ask(_: str) -> None:
            raise ClusterUnavailable("nobody answers")

        return ask


def given(monkeypatch: pytest.MonkeyPatch, manager: object) -> None:
    monkeypatch.setattr(applications, "configured_manager", lambda environ: manager)


def test_what_yarn_says(monkeypatch: pytest.MonkeyPatch) -> None:
    given(monkeypatch, Manager())
    assert applications.describe_end(ID) is None
    assert applications.find_running("t") == ID
    given(monkeypatch, Manager("KILLED", "KILLED", "killed by user x\n"))
    assert applications.describe_end(ID) == "YARN says KILLED: killed by user x"
    assert applications.find_running("t") is None
    given(monkeypatch, Manager("FINISHED", "FAILED", "exit code 13"))
    assert applications.describe_end(ID) == "YARN says FINISHED, FAILED: no database"
    given(monkeypatch, Manager("FINISHED", "SUCCEEDED"))
    assert applications.describe_end(ID) == "YARN says FINISHED, SUCCEEDED"


@pytest.mark.parametrize("manager", [None, Away()])
def test_where_nobody_can_be_asked_the_rows_decide(monkeypatch: pytest.MonkeyPatch, manager: object) -> None:
    given(monkeypatch, manager)
    assert applications.describe_end(ID) is None
    assert applications.find_running("t") is None
    applications.end(ID)


def test_of_others_nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    given(monkeypatch, manager := Manager("KILLED", "KILLED"))
    for name in (None, "etl:compactor-8f-driver", "process:elsewhere:1:2", "application_17_0009"):
        assert applications.describe_end(name) is None
        assert applications.find_on_yarn(name) is None
    for name in (None, "etl:compactor-8f-driver"):
        applications.end(name)
    assert manager.killed == []
    applications.end(ID)
    assert manager.killed == [ID]


def test_a_process_of_this_machine(tmp_path: Path) -> None:
    name = driver_processes.start(["true"], dict(os.environ), tmp_path / "log")
    os.waitpid(int(name.split(":")[2]), 0)
    assert applications.describe_end(name) == "its process is gone"

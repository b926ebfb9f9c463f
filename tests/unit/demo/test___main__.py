from __future__ import annotations

import logging
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from demo.__main__ import main
from demo.run import Demo, NotAsPromised

KINDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    """Restores the signal handlers and logging that ``main`` sets for the whole process."""
    before = {kind: signal.getsignal(kind) for kind in KINDS}
    level = logging.getLogger().level
    yield
    for kind, handler in before.items():
        signal.signal(kind, handler)
    logging.getLogger().setLevel(level)


@pytest.mark.parametrize("what", ["run", "up"])
def test_a_failure_is_one_line_and_1(what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "[thesis].txt").touch()
    assert main([what, "--folder", str(tmp_path)]) == 1
    told = capsys.readouterr().out
    assert told.startswith("The demo failed.")
    assert "no demo made it" in told


@pytest.mark.parametrize("arguments", [[], ["down"], ["run", "--months", "13"], ["run", "--port", "http"]])
def test_usage_ends_with_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert "usage: python -m demo" in capsys.readouterr().err


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
@pytest.mark.parametrize(("what", "code"), [("run", 130), ("up", 0)])
def test_every_signal_stops_it(monkeypatch: pytest.MonkeyPatch, what: str, code: int, kind: signal.Signals) -> None:
    """``up`` is meant to be stopped, ``run`` is not."""

    def interrupted(demo: Demo) -> None:
        os.kill(os.getpid(), kind)

    monkeypatch.setattr(Demo, what, interrupted)
    assert main([what]) == code


def test_printed_text_is_not_read_as_markup(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(demo: Demo) -> None:
        raise NotAsPromised("t[bold]: 3 directories")

    monkeypatch.setattr(Demo, "run", broken)
    assert main(["run"]) == 1
    assert "t[bold]: 3 directories" in capsys.readouterr().out

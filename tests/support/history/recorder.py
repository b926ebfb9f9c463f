"""Records what a process is about to do and what came of it, so that a SIGKILL leaves both or the first alone."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from compactor.base.errors import CommitUnknown, CompactorError
from tests.support.history.operations import Outcome

_T = TypeVar("_T")


def _as_it_is(answer: Any) -> Any:
    return answer


class Recorder:
    """The operations of one process, in a file of its own. Each line is appended with one write."""

    def __init__(self, folder: Path, process: str) -> None:
        self.process = process
        self._file = os.open(folder / f"{process}.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._number = 0

    def call(
        self, name: str, call: Callable[[], _T], *, answer: Callable[[_T], Any] = _as_it_is, **arguments: Any
    ) -> tuple[str, _T]:
        """Records ``call`` and returns the operation's key and the call's result; ``answer`` converts the result for the
        record.

        Raises:
            CompactorError: as ``call`` does; anything else that it raises is written down as a bug.
        """
        self._number += 1
        number = self._number
        self._write({"number": number, "name": name, "at": time.monotonic_ns(), "arguments": arguments})
        try:
            result = call()
        except CommitUnknown as error:
            self._answer(number, Outcome.UNKNOWN, error=f"{type(error).__name__}: {error}")
            raise
        except CompactorError as error:
            self._answer(number, Outcome.REFUSED, error=f"{type(error).__name__}: {error}")
            raise
        except Exception as error:
            self._answer(number, Outcome.UNKNOWN, error=f"BUG {type(error).__name__}: {error}")
            raise
        self._answer(number, Outcome.OK, value=answer(result))
        return f"{self.process}/{number}", result

    def _answer(self, number: int, outcome: Outcome, **more: Any) -> None:
        self._write({"number": number, "at": time.monotonic_ns(), "outcome": outcome.value, **more})

    def _write(self, line: dict[str, Any]) -> None:
        os.write(self._file, json.dumps(line).encode() + b"\n")

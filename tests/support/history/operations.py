"""Recorded calls of processes on a metastore: one value for each call, with its times and its answer.

Times are nanoseconds of CLOCK_MONOTONIC, which all processes of a machine share. Each call took effect at one instant
between ``began`` and ``ended``; a call without an answer (its process was killed) took effect at any later time or never.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


class Outcome(enum.Enum):
    """The caller's knowledge of a call's result."""

    OK = "ok"
    REFUSED = "refused"  #: an error that means that nothing was done
    UNKNOWN = "unknown"  #: no answer, or an error that leaves open what was done


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One call."""

    process: str
    number: int
    name: str
    began: int
    ended: int | None
    outcome: Outcome
    arguments: Mapping[str, Any] = field(default_factory=dict)
    value: Any = None
    error: str = ""

    @property
    def key(self) -> str:
        """Name of the operation in arguments of others."""
        return f"{self.process}/{self.number}"

    @property
    def is_ok(self) -> bool:
        return self.outcome is Outcome.OK

    @property
    def is_possible(self) -> bool:
        """True if the call may have taken effect."""
        return self.outcome is not Outcome.REFUSED

    @property
    def latest(self) -> float:
        """The latest time at which the call may have taken effect."""
        return float("inf") if self.ended is None or self.outcome is Outcome.UNKNOWN else self.ended

    def precedes(self, other: Operation) -> bool:
        """Returns true if it was over before ``other`` began."""
        return self.latest < other.began

    def __str__(self) -> str:
        given = ", ".join(f"{name}={value}" for name, value in self.arguments.items())
        answer = self.error if self.outcome is not Outcome.OK else self.value
        until = "?" if self.ended is None else f"{self.ended / 1e6:.3f}"
        return f"[{self.began / 1e6:.3f}..{until} ms] {self.key} {self.name}({given}) -> {self.outcome.value} {answer}"


class Kind(enum.Enum):
    """The kinds of anomalies."""

    BUG = "an error that nobody raises on purpose"
    DUPLICATE_TRANSACTION = "a transaction id was given twice"
    TRANSACTION_ORDER = "a transaction that was opened later has the lower id"
    TWO_FATES = "a transaction was committed and aborted, or changed back"
    LOST_TRANSACTION = "a transaction that was opened or committed is not there"
    WORK_AFTER_END = "something was done for a transaction that had ended"
    DUPLICATE_WRITE_ID = "a write ID was given twice, or two to one transaction"
    WRITE_ID_ORDER = "a write ID that was given later is the lower one"
    LOST_WRITE_ID = "a write ID that was given is not mapped to its transaction"
    SEES_UNCOMMITTED = "a snapshot sees a transaction that was not committed"
    MISSES_COMMITTED = "a snapshot misses a transaction that was committed before"
    NOT_ONE_INSTANT = "a snapshot sees a transaction and misses one that committed before it"
    WRONG_READ = "a read found something else than its snapshot sees"
    NOT_REPEATABLE = "two reads under one snapshot differ"
    BOTH_COMMITTED = "two transactions that wrote the same at the same time are both committed"
    LOST_UPDATE = "two committed transactions went on from the same value"
    DUPLICATE_LOCK = "a lock id was given twice"
    LOCKED_TWICE = "two locks that exclude each other were held at the same time"
    DUPLICATE_ENTRY = "an entry's id was given twice, or it is in queue and history"
    CLAIMED_TWICE = "an entry was claimed by two without being queued again between"
    ILLEGAL_CHANGE = "what an entry went through is no way through the states"
    LOST_ENTRY = "an entry is neither in the queue nor in the history"


@dataclass(frozen=True, slots=True, kw_only=True)
class Anomaly:
    """Something that must not happen, with the operations that prove it."""

    kind: Kind
    proof: tuple[Operation, ...]
    about: str = ""

    def __str__(self) -> str:
        return "\n    ".join([f"{self.kind.name} {self.about}: {self.kind.value}", *map(str, self.proof)])


def recorded(folder: Path) -> list[Operation]:
    """Returns all operations recorded in the files ``*.jsonl`` in ``folder``, ordered by their beginning."""
    found = [operation for path in folder.glob("*.jsonl") for operation in _of_process(path.stem, path.read_bytes())]
    return sorted(found, key=lambda operation: operation.began)


def dead(folder: Path) -> frozenset[str]:
    """Returns the names of the processes of the history in ``folder`` that were killed and are gone."""
    return frozenset(path.name for path in (folder / "dead").iterdir())


def _of_process(process: str, text: bytes) -> Iterable[Operation]:
    lines = [json.loads(line) for line in text.split(b"\n")[:-1]]  # the last line may have been cut off
    answers = {line["number"]: line for line in lines if "outcome" in line}
    for line in lines:
        if "name" in line:
            answer = answers.get(line["number"], {})
            yield Operation(
                process=process,
                number=line["number"],
                name=line["name"],
                arguments=line["arguments"],
                began=line["at"],
                ended=answer.get("at"),
                outcome=Outcome(answer.get("outcome", "unknown")),
                value=answer.get("value"),
                error=answer.get("error", "no answer"),
            )

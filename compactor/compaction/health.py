"""The health of a table or partition: a number from 0 to 100 for the work that its readers have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

SMALL_FILE = 16 * 1024 * 1024  #: bytes below which a file costs a reader more to open than to read
_NUM, _PCT = "hive.compactor.delta.num.threshold", "hive.compactor.delta.pct.threshold"
_ABORTS = "hive.compactor.abortedtxn.threshold"
_MERGING, _DELETES, _SMALL, _ABORTED = 50, 20, 20, 10  #: the points each kind of trouble can cost, 100 in all
_DELETES_AT = 0.1  #: share of the bytes in delete deltas at which all of their points are lost


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """The directories and files that a reader merges and opens; sizes in bytes.

    ``small_files`` are those below ``SMALL_FILE`` that could be joined with another; ``aborts`` are aborted
    transactions that are not forgotten yet.
    """

    base_bytes: int = 0
    delta_bytes: int = 0
    delete_bytes: int = 0
    deltas: int = 0
    files: int = 0
    small_files: int = 0
    obsolete: int = 0
    aborts: int = 0
    health: int = 100

    @classmethod
    def from_numbers(cls, numbers: Mapping[str, object]) -> Condition | None:
        """Builds the condition from a decision's numbers and thresholds; None if the directory was not listed."""
        if "files" not in numbers:
            return None
        figures = {name: _integer(numbers, name) for name in cls.__slots__ if name != "health"}
        return cls(**figures, health=_health(cls(**figures), numbers))

    @property
    def bytes(self) -> int:
        """The bytes that a reader of all columns reads."""
        return self.base_bytes + self.delta_bytes

    @property
    def delete_ratio(self) -> float:
        """The share of ``bytes`` in delete deltas."""
        return self.delete_bytes / self.bytes if self.bytes else 0.0


def _health(condition: Condition, limits: Mapping[str, object]) -> int:
    """Subtracts from 100 the cost of each kind of trouble.

    At the initiator's threshold the cost is at its maximum.
    """
    ratio = condition.delta_bytes / condition.base_bytes if condition.base_bytes else 0.0
    merging = max(_part(condition.deltas, limits, _NUM), _part(ratio, limits, _PCT))
    deletes = min(1.0, condition.delete_ratio / _DELETES_AT)
    small = condition.small_files / condition.files if condition.files else 0.0
    aborted = _part(condition.aborts, limits, _ABORTS)
    return round(100 - merging * _MERGING - deletes * _DELETES - small * _SMALL - aborted * _ABORTED)


def _part(value: float, limits: Mapping[str, object], key: str) -> float:
    limit = limits.get(key, 0)
    if not isinstance(limit, int | float) or limit <= 0:
        return 1.0 if value else 0.0
    return min(1.0, value / limit)


def _integer(numbers: Mapping[str, object], name: str) -> int:
    value = numbers.get(name, 0)
    return int(value) if isinstance(value, int | float) else 0

"""Chooses which due compactions are requested now, by benefit for cost and within a budget. Pure.

Only a compaction above one of the initiator's thresholds is due. Order and budget change when it runs, not whether.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from compactor.compaction.states import CompactionType
from compactor.settings.precedence import Settings

ORDER, BUDGET = "compactor.order", "compactor.budget"
HOUR_MS = 3_600_000
OPENING_S = 0.01  #: to list and open a directory, roughly; good enough for an order
DELETES_A_SECOND = 50e6  #: bytes of delete events that a reader applies in a second, roughly
_CORE_SECONDS_A_RUN, _BYTES_A_CORE_SECOND = 0.05, 200e6  #: the cost of a run until measured ones exist
_KEY = TypeVar("_KEY")


class Order(enum.Enum):
    """The order in which compactions that are due are requested."""

    THRESHOLDS = "thresholds"  #: in the order in which they are found
    BENEFIT = "benefit"  #: those that save readers most for their cost first


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The order, and the bound on the expected core-seconds of an hour's requests (None: no bound)."""

    order: Order = Order.THRESHOLDS
    budget: int | None = None

    @classmethod
    def from_settings(cls, settings: Settings) -> Policy:
        return cls(order=Order(settings.text(ORDER)), budget=settings.integer(BUDGET) or None)

    @property
    def chooses(self) -> bool:
        """True if candidates have to be compared."""
        return self.budget is not None or self.order is Order.BENEFIT


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish(Generic[_KEY]):
    """A compaction that is due, identified by ``key``.

    ``benefit`` is the seconds that it saves the readers of a day, ``cost`` the core-seconds that it is expected to take.
    """

    key: _KEY
    benefit: float
    cost: float

    @property
    def worth(self) -> float:
        """The benefit for each core-second."""
        return self.benefit / max(self.cost, 1e-6)


def benefit(kind: CompactionType, *, deltas: int, delete_bytes: int, reads: float = 1.0) -> float:
    """Returns the seconds that a compaction saves ``reads`` reads of the table or partition.

    Readers have fewer directories to list and open, and fewer delete events to apply. A minor compaction leaves one delta
    and all delete events.
    """
    is_major = kind is not CompactionType.MINOR
    removed = deltas if is_major else max(0, deltas - 1)
    return reads * (removed * OPENING_S + (delete_bytes / DELETES_A_SECOND if is_major else 0.0))


def plain_cost(bytes_read: int) -> float:
    """Returns the core-seconds of a compaction where no measured run exists."""
    return _CORE_SECONDS_A_RUN + bytes_read / _BYTES_A_CORE_SECOND


class Purse:
    """The remaining budget of the last hour.

    ``spent`` are the times (epoch ms) and expected core-seconds of earlier requests, oldest first.
    """

    def __init__(self, budget: int | None, spent: Iterable[tuple[int, float]] = ()) -> None:
        self._budget = budget
        self._spent = deque(spent)
        self._sum = sum(cost for _, cost in self._spent)

    def is_open(self, now: int) -> bool:
        """Returns true if something may be spent at ``now``.

        The last request may cost more than what remains, and later ones then wait. So a compaction that costs more than the
        budget of an hour also gets its turn.
        """
        while self._spent and self._spent[0][0] <= now - HOUR_MS:
            self._sum -= self._spent.popleft()[1]
        return self._budget is None or self._sum < self._budget

    def pay(self, now: int, cost: float) -> None:
        """Spends ``cost`` at ``now``."""
        self._spent.append((now, cost))
        self._sum += cost


def choose(
    wishes: Sequence[Wish[_KEY]], order: Order, purse: Purse, now: int
) -> tuple[list[Wish[_KEY]], list[Wish[_KEY]]]:
    """Splits ``wishes`` into those to request at ``now``, in order, and those that wait.

    Pays for the former.
    """
    ranked = sorted(wishes, key=lambda wish: -wish.worth) if order is Order.BENEFIT else list(wishes)
    chosen: list[Wish[_KEY]] = []
    for wish in ranked:
        if not purse.is_open(now):
            break
        purse.pay(now, wish.cost)
        chosen.append(wish)
    return chosen, ranked[len(chosen) :]

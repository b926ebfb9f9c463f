"""Ordered operations on keys, and what is left of them in the end."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from compactor.rows.keys import Mask, Numbers
from compactor.tables.writing.row_change import Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class NetChanges:
    """For each key, by its number: the places of its first and last operation, and what they mean together."""

    first: Numbers
    last: Numbers
    must_exist: Mask  #: the table has it; else it has none
    remains: Mask  #: there is a row with it afterwards


def net_changes(kinds: Numbers, keys: Numbers) -> NetChanges:
    """Returns what is left of operations in their order.

    Args:
        kinds: their ``Kind``.
        keys: the numbers of their keys, from 0 on without gaps.
    """
    order = np.argsort(keys, kind="stable")
    first, last = (order[np.flatnonzero(np.diff(keys[order], **edge))] for edge in ({"prepend": -1}, {"append": -1}))
    return NetChanges(
        first=first, last=last, must_exist=kinds[first] != Kind.INSERT, remains=kinds[last] != Kind.DELETE
    )


def pairs(keys: Numbers) -> tuple[Numbers, Numbers]:
    """Returns the places of each operation and of the next one on the same key, for all that have a next one."""
    order = np.argsort(keys, kind="stable")
    same = keys[order][1:] == keys[order][:-1]
    return order[:-1][same], order[1:][same]


def out_of_turn(kinds: Numbers, keys: Numbers) -> tuple[int, int] | None:
    """Returns the first operation that the one before it on its key does not allow, behind that one: an insert of what is
    there, or an update or delete of what is not."""
    before, after = pairs(keys)
    wrong = (kinds[after] == Kind.INSERT) != (kinds[before] == Kind.DELETE)
    if not wrong.any():
        return None
    found = np.argmin(after[wrong])
    return int(before[wrong][found]), int(after[wrong][found])

"""Reduces ordered operations on keys to their net changes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from compactor.rows.keys import Mask, Numbers
from compactor.tables.writing.row_change import Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class NetChanges:
    """For each key, by number: the positions of its first and last operation, and their effect together."""

    first: Numbers
    last: Numbers
    must_exist: Mask  #: the table must have a row with the key, otherwise it must not
    remains: Mask  #: a row with the key exists afterwards


def compute_net_changes(kinds: Numbers, keys: Numbers) -> NetChanges:
    """Returns the net changes of ordered operations.

    Args:
        kinds: the ``Kind`` of each operation.
        keys: the numbers of their keys, from 0 without gaps.
    """
    order = np.argsort(keys, kind="stable")
    first, last = (order[np.flatnonzero(np.diff(keys[order], **edge))] for edge in ({"prepend": -1}, {"append": -1}))
    return NetChanges(
        first=first, last=last, must_exist=kinds[first] != Kind.INSERT, remains=kinds[last] != Kind.DELETE
    )


def find_pairs(keys: Numbers) -> tuple[Numbers, Numbers]:
    """Returns the positions of consecutive operations on the same key: each one and its successor."""
    order = np.argsort(keys, kind="stable")
    same = keys[order][1:] == keys[order][:-1]
    return order[:-1][same], order[1:][same]


def find_illegal_pair(kinds: Numbers, keys: Numbers) -> tuple[int, int] | None:
    """Returns the first illegal pair of operations on a key: an insert of an existing row, or a change of a missing one."""
    before, after = find_pairs(keys)
    wrong = (kinds[after] == Kind.INSERT) != (kinds[before] == Kind.DELETE)
    if not wrong.any():
        return None
    earliest = np.argmin(after[wrong])
    return int(before[wrong][earliest]), int(after[wrong][earliest])

"""Partition names ``k=v/k2=v2`` as Hive writes them, and the forms in which it records them.

Hive writes them with ``FileUtils.makePartName``.

Hive 4 escapes the name of a static partition a second time when it records a lock or a write
(``p=a b%3Dc`` becomes ``p=a b%253Dc``), so both forms mean the same partition. Hive 3.1 records it in lower case
(``p=US`` becomes ``p=us``, ``TxnHandler.normalizeCase``), so one form may mean several partitions. Such rows outlive an
upgrade to a later schema. Names of partition keys have no case: Hive 4 lowers them (``TxnUtils.normalizePartitionCase``).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

DEFAULT_PARTITION = "__HIVE_DEFAULT_PARTITION__"

#: ``FileUtils.charToEscape``.
_ESCAPED = re.compile(r"[\x01-\x1f\"#%'*/:=?\\\x7f{\[\]^]")
_SEQUENCE = re.compile(r"%([0-9a-fA-F]{2})")


def escape(text: str) -> str:
    """Returns ``text`` as part of a directory name; an empty text gives the default partition's name."""
    if not text:
        return DEFAULT_PARTITION
    return _ESCAPED.sub(lambda match: f"%{ord(match.group()):02X}", text)


def unescape(text: str) -> str:
    """Reverses ``escape``. A ``%`` that does not begin an escape sequence is kept."""
    return _SEQUENCE.sub(lambda match: chr(int(match.group(1), 16)), text)


def part_name(keys: Sequence[str], values: Sequence[str]) -> str:
    """Returns the PART_NAME of the partition with these key names and plain values."""
    return "/".join(f"{escape(key.lower())}={escape(value)}" for key, value in zip(keys, values, strict=True))


def part_values(name: str) -> tuple[str, ...]:
    """Returns the plain values in a PART_NAME: neither ``/`` nor ``=`` is in an escaped one."""
    return tuple(unescape(part.partition("=")[2]) for part in name.split("/"))


def escape_again(name: str) -> str:
    """Returns the form in which Hive records a static partition: each value escaped once more."""
    return name.replace("%", "%25")


def unescape_once(name: str) -> str:
    """Returns the name behind the twice-escaped form ``name``.

    Returns ``name`` itself if it cannot be twice escaped.
    """
    less = name.replace("%25", "%")
    return less if escape_again(less) == name else name


def in_lower_case(name: str) -> str:
    """Returns the form in which Hive 3.1 records a lock on a partition, and a static INSERT into it."""
    return name.lower()


def with_lower_keys(name: str) -> str:
    """Returns ``name`` with its keys as Hive 4 writes them."""
    parts = (part.partition("=") for part in name.split("/"))
    return "/".join(f"{key.lower()}{sign}{value}" for key, sign, value in parts)


def is_same_but_for_keys(recorded: str, stored: str | None) -> bool:
    """Returns true if the names differ at most in the case of their keys."""
    return stored is not None and with_lower_keys(recorded) == with_lower_keys(stored)


def find_in_other_case(recorded: str, stored: Iterable[str]) -> tuple[str, ...]:
    """Returns the ``stored`` names that ``recorded``, which is not one of them, may mean.

    They differ in the case of their keys, or ``recorded`` is in lower case, as a name of Hive 3.1.
    """
    names = tuple(stored)
    same_values = tuple(name for name in names if is_same_but_for_keys(recorded, name))
    return same_values or tuple(name for name in names if in_lower_case(name) == recorded)


def recorded_names(name: str | None, *, lowered: bool = False) -> tuple[str | None, ...]:
    """Returns every form in which writers record the partition stored as ``name``, the stored one first.

    Args:
        lowered: a writer is Hive 3.1.
    """
    if name is None:
        return (name,)
    return tuple(dict.fromkeys((name, escape_again(name), *((in_lower_case(name),) if lowered else ()))))


def group_by_recorded_name(stored: Iterable[str], *, lowered: bool) -> Mapping[str, Sequence[str]]:
    """Returns the names in ``stored`` that each recorded form may mean."""
    found: dict[str, list[str]] = defaultdict(list)
    for name in stored:
        for form in recorded_names(name, lowered=lowered):
            assert form is not None
            found[form].append(name)
    return found

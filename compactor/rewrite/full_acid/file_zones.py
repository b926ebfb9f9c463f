"""Decides which time zones the stripes of one output file name: every reader must be able to tell them apart (PROTOCOL 2.6).

ORC Java before 1.6 (Hive 3.1) takes up a stripe's zone only when it meets its name for the first time, and knows that of UTC
from the start. From 1.6 on it reads a stripe that names no zone in that of the stripe before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from compactor.orc.format.java_zones import is_utc
from compactor.orc.format.stripe_footer import read_stripe_footer, zone_named
from compactor.orc.pieces import runs_of_one_zone
from compactor.rewrite.full_acid.output_format import zone_of_choice
from compactor.rewrite.full_acid.stripe_choice import Action, Choice


def fit_to_zones(choices: Sequence[Choice], *, one_zone: bool) -> list[Choice]:
    """Returns the final choices for one file. Where some reader would take a stripe's zone for another, that stripe is
    re-encoded under a name that is new to it. Where no name is, all times become what the clocks of their zones showed, in
    UTC.

    Args:
        one_zone: readers are of Hive 2, which know the zone of their own JVM from the start, whichever that is.
    """
    zones = [zone_of_choice(choice) for choice in choices]
    if len(set(zones) - {None}) < 2 or not choices:
        return list(choices)
    runs = _encoded_together(choices, zones)
    decided = [(_decided(choice, alone=len(run) == 1), zone) for run in runs for choice, zone in run]
    told_apart = None if one_zone else _told_apart(decided)
    return told_apart or [_in_utc(choice, zone) for choice, zone in zip(choices, zones, strict=True)]


def _encoded_together(
    choices: Sequence[Choice], zones: Sequence[str | None]
) -> Iterator[list[tuple[Choice, str | None]]]:
    """Groups neighbours that would become one stripe; each that is copied stands alone."""
    pairs = zip(choices, zones, strict=True)
    for encodes, group in groupby(pairs, key=lambda pair: pair[0].action is Action.ENCODE):
        if encodes:
            yield from runs_of_one_zone(group, lambda pair: pair[1])
        else:
            yield from ([pair] for pair in group)


def _decided(choice: Choice, *, alone: bool) -> Choice:
    """Returns a choice that stays: a small stripe is copied if no neighbour of its zone is encoded with it."""
    if not choice.is_only_small:
        return choice
    return choice._replace(is_only_small=False, action=Action.COPY if alone else Action.ENCODE)


def _told_apart(choices: Sequence[tuple[Choice, str | None]]) -> list[Choice] | None:
    """Returns the choices with those re-encoded that some reader would misread as copies; None if that does not help."""
    readers = (_OldReader(), _NewReader())
    found = []
    for choice, zone in choices:
        if zone is not None:
            if choice.action is Action.COPY and not all(
                reader.can_read(_copied_name(choice), zone) for reader in readers
            ):
                choice = choice._replace(action=Action.ENCODE)
            name = _copied_name(choice) if choice.action is Action.COPY else zone
            if not all(reader.can_read(name, zone) for reader in readers):
                return None
            for reader in readers:
                reader.read(name)
        found.append(choice)
    return found


def _copied_name(choice: Choice) -> str:
    return zone_named(read_stripe_footer(choice.file.source, choice.file.tail, choice.stripe))


def _in_utc(choice: Choice, zone: str | None) -> Choice:
    if zone is None or is_utc(zone):
        return choice._replace(is_only_small=False)
    return choice._replace(is_only_small=False, action=Action.ENCODE, as_shown=True)


class _OldReader:
    """ORC Java before 1.6 in UTC: which zone it takes the next stripe to be of, and which names it knows."""

    def __init__(self) -> None:
        self._zone = "UTC"
        self._known = {"UTC"}

    def can_read(self, name: str, zone: str) -> bool:
        return _are_one(self._next(name), zone or "UTC")

    def read(self, name: str) -> None:
        self._zone = self._next(name)
        self._known.add(name or "UTC")

    def _next(self, name: str) -> str:
        return self._zone if (name or "UTC") in self._known else name


class _NewReader:
    """ORC Java from 1.6 on: which zone it takes a stripe that names none to be of; the empty text is its own."""

    def __init__(self) -> None:
        self._zone = ""

    def can_read(self, name: str, zone: str) -> bool:
        return _are_one(name or self._zone, zone) or not (name or self._zone)

    def read(self, name: str) -> None:
        self._zone = name or self._zone


def _are_one(one: str, other: str) -> bool:
    return one == other or (is_utc(one) and is_utc(other))

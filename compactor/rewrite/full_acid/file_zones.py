"""Chooses the one time zone in which the times of an output file count (PROTOCOL 2.6).

ORC Java before 1.6 (Hive 3.1, Spark up to 3.1) changes its zone only when a zone's name occurs for the first time, and
begins with the zone of its JVM. So it misreads most files with stripes of several zones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from compactor.orc.format.java_zones import UTC_NAME, java_zone
from compactor.orc.format.types import TypeKind
from compactor.orc.pieces import lacks_zone
from compactor.orc.stripe_compatibility import ORC_135
from compactor.rewrite.full_acid.output_format import zone_of_choice
from compactor.rewrite.full_acid.stripe_choice import Action, Choice


def fit_to_zones(choices: Sequence[Choice]) -> list[Choice]:
    """Returns the final choices for one file, all in one zone.

    That is the zone with the most bytes, if its clocks have shown all times that the other stripes may hold; otherwise
    it is UTC. Stripes that name no zone are re-encoded if their zone is known by other means.
    """
    zones = [zone_of_choice(choice) for choice in choices]
    known = set(zones) - {None}
    target = None if len(known) < 2 else _choose_zone(choices, zones)
    return [_fit_choice(choice, zone, target) for choice, zone in zip(choices, zones, strict=True)]


def _fit_choice(choice: Choice, zone: str | None, target: str | None) -> Choice:
    if zone is None:
        return choice
    if target not in (None, zone):
        return choice._replace(action=Action.ENCODE, is_only_small=False, to_zone=target)
    return choice._replace(action=Action.ENCODE, is_only_small=False) if _lacks_zone(choice) else choice


def _lacks_zone(choice: Choice) -> bool:
    return lacks_zone(choice.file.source, choice.file.tail, choice.stripe)


def _choose_zone(choices: Sequence[Choice], zones: Sequence[str | None]) -> str:
    sizes: Counter[str] = Counter()
    for choice, zone in zip(choices, zones, strict=True):
        sizes[zone or UTC_NAME] += choice.length if zone else 0
    ((largest, _),) = sizes.most_common(1)
    others = (choice for choice, zone in zip(choices, zones, strict=True) if zone not in (None, largest))
    return largest if largest == UTC_NAME or all(_shows_all_times(largest, choice) for choice in others) else UTC_NAME


def _shows_all_times(name: str, choice: Choice) -> bool:
    """Returns true if the clocks of a zone have shown all times that a stripe may hold by its statistics."""
    tail = choice.file.tail
    if tail.stripe_statistics is None or tail.writer_version < ORC_135 or not (zone := java_zone(name)).is_known:
        return False
    for number, item in enumerate(tail.types):
        part = tail.stripe_statistics[choice.stripe][number]
        times = part.timestamp_statistics
        if item.kind is not TypeKind.TIMESTAMP or (tail.complete_statistics and not part.number_of_values):
            continue
        if not times.HasField("minimum_utc") or not times.HasField("maximum_utc"):
            return False
        if not zone.shows_all(times.minimum_utc // 1000, times.maximum_utc // 1000):
            return False
    return True

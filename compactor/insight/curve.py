"""A number that changes over time, as a curve of means over equal parts of the time. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

PARTS = 96  #: of the time; as many as a plot shows


@dataclass(slots=True)
class Curve:
    """The mean of many values over time, from ``begin`` to ``end`` (epoch ms), in ``PARTS`` equal parts.

    A curve without an end keeps nothing.
    """

    begin: int = 0
    end: int = 0
    _sums: list[float] = field(default_factory=lambda: [0.0] * PARTS)
    _times: list[float] = field(default_factory=lambda: [0.0] * PARTS)

    def add(self, value: float, since: int, until: int) -> None:
        """Adds a value that held from ``since`` to ``until``."""
        width = (self.end - self.begin) / PARTS
        since, until = max(since, self.begin), min(until, self.end)
        if width <= 0 or until <= since:
            return
        first, last = int((since - self.begin) / width), min(PARTS - 1, int((until - self.begin) / width))
        for part in range(first, last + 1):
            start = self.begin + part * width
            time = min(until, start + width) - max(since, start)
            if time > 0:
                self._sums[part] += value * time
                self._times[part] += time

    def points(self) -> list[tuple[int, float]]:
        """Returns the middle of each part with values (epoch ms), with their mean."""
        width = (self.end - self.begin) / PARTS
        return [
            (round(self.begin + (part + 0.5) * width), total / time)
            for part, (total, time) in enumerate(zip(self._sums, self._times, strict=True))
            if time
        ]

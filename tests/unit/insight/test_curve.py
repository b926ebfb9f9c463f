from __future__ import annotations

import pytest

from compactor.insight.curve import PARTS, Curve


def test_each_part_has_the_mean_of_its_time() -> None:
    curve = Curve(0, 100 * PARTS)
    curve.add(2, 0, 150)
    curve.add(4, 150, 100 * PARTS)
    points = curve.points()
    assert points[:3] == [(50, 2.0), (150, 3.0), (250, 4.0)]
    assert (len(points), points[-1]) == (PARTS, (100 * PARTS - 50, 4.0))


def test_several_values_share_a_part() -> None:
    curve = Curve(1000, 1000 + PARTS)
    curve.add(1, 0, 1001)  # from before it began
    curve.add(5, 1000, 1001)
    assert curve.points() == [(pytest.approx(1000.5, abs=0.5), 3.0)]


def test_without_a_time_nothing_is_kept() -> None:
    curve = Curve()
    curve.add(1, 0, 10)
    curve.add(1, 10, 10)
    assert curve.points() == []

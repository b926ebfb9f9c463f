from __future__ import annotations

import pytest

from compactor.base.errors import BadSetting
from compactor.compaction.economy import HOUR_MS, Order, Policy, Purse, Wish, benefit, choose
from compactor.compaction.states import CompactionType
from compactor.settings.precedence import Layer, Settings

WISHES = [
    Wish(key="large", benefit=10.0, cost=100.0),
    Wish(key="worthy", benefit=9.0, cost=1.0),
    Wish(key="small", benefit=1.0, cost=1.0),
]


def settings(**values: str) -> Settings:
    return Settings.of([Layer(name="flag", values={f"compactor.{name}": value for name, value in values.items()})])


@pytest.mark.parametrize(
    ("order", "budget", "now", "later"),
    [
        (Order.THRESHOLDS, None, ["large", "worthy", "small"], []),
        (Order.BENEFIT, None, ["worthy", "small", "large"], []),
        (Order.BENEFIT, 2, ["worthy", "small"], ["large"]),
        (Order.BENEFIT, 3, ["worthy", "small", "large"], []),  # the last one is paid for by later hours
        (Order.THRESHOLDS, 2, ["large"], ["worthy", "small"]),
    ],
)
def test_what_is_worth_most_goes_first_and_the_rest_waits(
    order: Order, budget: int | None, now: list[str], later: list[str]
) -> None:
    chosen, waiting = choose(WISHES, order, Purse(budget), 0)
    assert ([one.key for one in chosen], [one.key for one in waiting]) == (now, later)


def test_the_budget_is_that_of_the_last_hour() -> None:
    purse = Purse(10, [(0, 4.0), (1000, 8.0)])
    assert not purse.is_open(HOUR_MS - 1)
    assert purse.is_open(HOUR_MS)
    purse.pay(HOUR_MS, 3.0)
    assert not purse.is_open(HOUR_MS + 999)
    assert purse.is_open(HOUR_MS + 1000)


def test_what_costs_more_than_an_hour_has_its_turn() -> None:
    (chosen, _), (nothing, waiting) = (
        choose(WISHES[:1], Order.BENEFIT, Purse(1, spent), 5) for spent in ([], [(4, 1.0)])
    )
    assert [one.key for one in chosen] == [one.key for one in waiting] == ["large"]
    assert nothing == []


def test_a_major_saves_more_and_readers_multiply_it() -> None:
    major = benefit(CompactionType.MAJOR, deltas=10, delete_bytes=50_000_000)
    minor = benefit(CompactionType.MINOR, deltas=10, delete_bytes=50_000_000)
    assert (major, minor) == (pytest.approx(1.1), pytest.approx(0.09))
    assert benefit(CompactionType.MINOR, deltas=10, delete_bytes=0, reads=100) == pytest.approx(9.0)
    assert benefit(CompactionType.MINOR, deltas=0, delete_bytes=0) == 0


def test_the_policy_is_a_setting() -> None:
    assert Policy.from_settings(settings()) == Policy()
    assert not Policy().chooses
    found = Policy.from_settings(settings(order="benefit", budget="3600"))
    assert (found, found.chooses) == (Policy(order=Order.BENEFIT, budget=3600), True)
    assert Policy(budget=1).chooses
    with pytest.raises(BadSetting, match="thresholds, benefit"):
        Policy.from_settings(settings(order="chance"))

from __future__ import annotations

from dataclasses import replace

from compactor.state.state_database import OwnState
from compactor.state.stored_overrides import Override

NUM = Override(database="d", table="t", key="hive.compactor.delta.num.threshold", value="3", by="ann")
PAUSED = Override(database="d", table="t", key="compactor.paused", value="true", by="bob")


def test_what_is_said_last_of_a_setting_is_kept(fresh: OwnState) -> None:
    fresh.overrides.keep("m", NUM)
    fresh.overrides.keep("m", replace(NUM, value="5", by="bob" * 200))
    fresh.overrides.keep("m", PAUSED)
    paused, num = fresh.overrides.of_table("m", "d", "t")
    assert replace(paused, at=0) == PAUSED
    assert (num.value, num.by, num.at > 0) == ("5", ("bob" * 200)[:256], True)


def test_each_table_of_each_metastore_has_its_own(fresh: OwnState) -> None:
    fresh.overrides.keep("m", NUM)
    fresh.overrides.keep("m", replace(NUM, table="T"))
    fresh.overrides.keep("other", replace(NUM, value="9"))
    assert [override.value for override in fresh.overrides.of_table("m", "d", "t")] == ["3"]
    assert [override.table for override in fresh.overrides.of_key("m", NUM.key)] == ["T", "t"]
    assert fresh.overrides.of_key("m", PAUSED.key) == []
    assert fresh.overrides.everything("m") == {("d", "T"): {NUM.key: "3"}, ("d", "t"): {NUM.key: "3"}}


def test_it_is_forgotten_once(fresh: OwnState) -> None:
    fresh.overrides.keep("m", NUM)
    fresh.overrides.keep("m", PAUSED)
    assert fresh.overrides.forget("m", "d", "t", NUM.key)
    assert not fresh.overrides.forget("m", "d", "t", NUM.key)
    assert [override.key for override in fresh.overrides.of_table("m", "d", "t")] == [PAUSED.key]

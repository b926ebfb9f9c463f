from __future__ import annotations

import pickle

from compactor.acid.write_ids import ValidWriteIdList
from compactor.base.ids import WriteId
from compactor.rewrite.plan.unit import Figures, Input, Shape, Unit


def test_a_unit_travels() -> None:
    ids = ValidWriteIdList(table="d.t", high_watermark=WriteId(3), aborted=frozenset({WriteId(2)}))
    unit = Unit(
        location="/t",
        staging="/t/.compactor_v1",
        number=3,
        shape=Shape.MINOR,
        inserts=(Input(path="a", length=5),),
        deletes=(Input(path="b", length=7),),
        write_ids=ids.for_compactor(),
        first_write_id=WriteId(1),
        row_type="struct<a:int>",
    )
    assert pickle.loads(pickle.dumps(unit)) == unit
    assert unit.input_bytes == 12


def test_figures_add_up_field_by_field() -> None:
    a = Figures(**{name: number for number, name in enumerate(Figures.__slots__)})
    b = Figures(**dict.fromkeys(Figures.__slots__, 100))
    assert a + b == Figures(**{name: 100 + number for number, name in enumerate(Figures.__slots__)})

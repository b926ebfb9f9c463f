"""Readers that skip row groups find the others where the index of a stripe that we encoded says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from compactor.orc.codecs import arrow_codec
from compactor.orc.codecs.arrow_encoder import ZlibEncoder
from compactor.orc.codecs.bloom_filters import stripe_filters
from compactor.orc.format.tail import read_tail
from compactor.orc.io.source import LocalSource
from tests.support.beside import TRANSACTIONAL, Beside
from tests.support.trino import Trino

ROWS, GROUP = 90_000, 10_000


def test_every_row_group_of_a_large_stripe_answers_point_predicates(
    beside: Beside, trino: Trino, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Java's reader goes by positions and bloom filters as soon as it has a predicate; wrong ones give other rows, or none,
    without a word."""
    made: list[ZlibEncoder] = []

    def noted(*args: Any, **options: Any) -> ZlibEncoder:
        made.append(ZlibEncoder(*args, **options))
        return made[-1]

    monkeypatch.setattr(arrow_codec, "ZlibEncoder", noted)
    filtered = "'transactional'='true', 'orc.bloom.filter.columns'='a,b,c,d,e,f'"
    columns = "a int, b string, c char(20), d decimal(20,3), e timestamp, f double"
    beside.hive.sql(f"create table row_groups ({columns}) stored as orc tblproperties({filtered})")
    numbers = f"select posexplode(split(space({ROWS - 1}), ' ')) as (a, nothing)"
    values = "a, concat('the row number ä', a), concat('ä', a), a / 8, from_unixtime(1000000000 + a * 7201), a / 16"
    beside.hive.sql(f"insert into row_groups select {values} from ({numbers}) t")
    beside.hive.sql("delete from row_groups where a % 97 = 3")
    keys = range(GROUP // 2, ROWS, GROUP)
    points = {key: f"select ROW__ID.rowid, * from row_groups where a = {key}" for key in keys}
    texts = {key: f"select a from row_groups where b = 'the row number ä{key}'" for key in keys}
    before = {key: beside.hive.sql(point) for key, point in points.items()}
    others = {
        (key, column): f"select a from row_groups where {column} = {literal}"
        for key, [line] in before.items()
        for column, literal in zip("cdef", _literals(line.split("\t")[3:]), strict=True)
    }
    in_this_process = ("--set", "compactor.unit.memory=0")
    [done] = beside.compact("row_groups", "major", None, *in_this_process)
    assert done["fate"] == "compacted", done
    assert len(made) == 1
    for key, point in points.items():
        assert [line.split("\t")[1:3] for line in before[key]] == [[str(key), f"the row number ä{key}"]]
        for session in ("main", "by row"):
            assert beside.hive.sql(point, session) == before[key], (key, session)
            assert beside.hive.sql(texts[key], session) == [str(key)], (key, session)
        assert trino.sql(texts[key]) == [[key]]
        for column in "cdef" if key in keys[::4] else "":
            assert beside.hive.sql(others[key, column]) == [str(key)], (key, column)
        found = trino.sql(f"select a, b from row_groups where a = {key}")
        assert [tuple(row) for row in found] == [(key, f"the row number ä{key}")]
    left = ROWS - len(range(3, ROWS, 97))
    assert trino.sql("select count(*), sum(a) from row_groups") == [[left, sum(range(ROWS)) - sum(range(3, ROWS, 97))]]
    assert _filtered(beside.directory("row_groups")) == {7, 8, 9, 10, 11, 12}
    beside.clean_all()


def _literals(values: list[str]) -> list[str]:
    """A char, a decimal, a timestamp and a double as Hive spells them."""
    text, decimal, moment, number = values
    return [f"'{text.rstrip()}'", f"{decimal}BD", f"timestamp'{moment}'", f"{number}D"]


def test_files_of_two_strides_become_one_whose_row_groups_are_found(beside: Beside, trino: Trino) -> None:
    """PROTOCOL 2.2: stripes of mixed strides in one file would lose rows silently under a predicate, or fail."""
    name, strides = "strides", (1000, 1500)
    beside.hive.sql(f"create table {name} (a int, b string) {TRANSACTIONAL}")
    for place, stride in enumerate(strides):
        beside.hive.sql(f"alter table {name} set tblproperties ('orc.row.index.stride'='{stride}')")
        numbers = "select posexplode(split(space(3999), ' ')) as (a, nothing)"
        beside.hive.sql(f"insert into {name} select a + {4000 * place}, concat('row ', a) from ({numbers}) t")
    assert _strides(beside.directory(name), "delta_*/bucket_*") == [*strides]
    [done] = beside.compact(name, "major")
    assert done["fate"] == "compacted", done
    assert len(_strides(beside.directory(name), "base_*/bucket_*")) == 1
    for key in (999, 1500, 4999, 5500, 7999):
        for session in ("main", "by row"):
            assert beside.hive.sql(f"select b from {name} where a = {key}", session) == [f"row {key % 4000}"], key
        assert trino.sql(f"select b from {name} where a = {key}") == [[f"row {key % 4000}"]]
    assert trino.sql(f"select count(*), sum(a) from {name}") == [[8000, sum(range(8000))]]
    beside.clean_all()


def _strides(location: Path, files: str) -> list[int]:
    found = []
    for path in sorted(location.glob(files)):
        with LocalSource(path) as source:
            found.append(read_tail(source).row_index_stride)
    return found


def _filtered(location: Path) -> frozenset[int]:
    """The columns of the new base that have bloom filters."""
    [path] = location.glob("base_*/bucket_*")
    with LocalSource(path) as source:
        return frozenset(stream.column for stream in stripe_filters(source, read_tail(source), 0)[1])

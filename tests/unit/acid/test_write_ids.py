"""Snapshots: Hive's text forms, and what a reader, a compactor and a cleaner may see."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compactor.acid.write_ids import (
    CleanerWriteIdList,
    CompactorWriteIdList,
    RangeAnswer,
    ValidTxnList,
    ValidWriteIdList,
)
from compactor.base.ids import NOTHING_OPEN, TxnId, WriteId

small = st.integers(1, 40)


@st.composite
def split_ids(draw: st.DrawFn) -> tuple[int, frozenset[int], frozenset[int]]:
    """A high watermark, open ids and aborted ids, with no id in both."""
    watermark = draw(small)
    open_ids = draw(st.frozensets(st.integers(1, watermark)))
    aborted = draw(st.frozensets(st.integers(1, watermark))) - open_ids
    return watermark, open_ids, aborted


def _txns(ids: tuple[int, frozenset[int], frozenset[int]]) -> ValidTxnList:
    return ValidTxnList(
        high_watermark=TxnId(ids[0]), open=frozenset(map(TxnId, ids[1])), aborted=frozenset(map(TxnId, ids[2]))
    )


def _writes(ids: tuple[int, frozenset[int], frozenset[int]]) -> ValidWriteIdList:
    return ValidWriteIdList(
        table="db.t",
        high_watermark=WriteId(ids[0]),
        open=frozenset(map(WriteId, ids[1])),
        aborted=frozenset(map(WriteId, ids[2])),
    )


@given(split_ids())
def test_txn_list_round_trip(ids: tuple[int, frozenset[int], frozenset[int]]) -> None:
    txns = _txns(ids)
    assert ValidTxnList.parse(str(txns)) == txns


@given(split_ids())
def test_write_id_list_round_trip(ids: tuple[int, frozenset[int], frozenset[int]]) -> None:
    write_ids = _writes(ids)
    assert ValidWriteIdList.parse(str(write_ids)) == write_ids
    assert "-" not in str(write_ids)


def test_txn_list_text() -> None:
    """Hive 4 writes runs of five or more ids as ``a-b``, shorter ones one by one."""
    txns = _txns((20, frozenset({3, 4, 5, 6, 7, 9}), frozenset({11, 12, 13, 14})))
    assert str(txns) == "20:3:3-7,9:11,12,13,14"
    assert str(_txns((20, frozenset(), frozenset({2})))) == f"20:{NOTHING_OPEN}::2"


def test_write_id_list_text() -> None:
    assert str(_writes((9, frozenset({4}), frozenset({2, 3})))) == "db.t:9:4:4:2,3"
    assert str(ValidWriteIdList(table=None, high_watermark=WriteId(1))) == f"null:1:{NOTHING_OPEN}::"


@pytest.mark.parametrize("text", ["5", "5:9223372036854775807", f"5:{NOTHING_OPEN}:", f"5:{NOTHING_OPEN}::"])
def test_trailing_empty_fields_may_be_missing(text: str) -> None:
    assert ValidTxnList.parse(text) == ValidTxnList(high_watermark=TxnId(5))
    assert ValidWriteIdList.parse(f"db.t:{text}") == ValidWriteIdList(table="db.t", high_watermark=WriteId(5))


def test_empty_text_sees_everything() -> None:
    assert ValidTxnList.parse("").is_valid(TxnId(NOTHING_OPEN))
    assert ValidWriteIdList.parse("").is_valid(WriteId(NOTHING_OPEN))


@pytest.mark.parametrize("text", ["x", "1:2:3:4:5", "1:2:a:", ":"])
def test_bad_txn_list(text: str) -> None:
    with pytest.raises(ValueError):
        ValidTxnList.parse(text)


@pytest.mark.parametrize("text", ["db.t", "db.t:x", "db.t:1:2:3:4:5"])
def test_bad_write_id_list(text: str) -> None:
    with pytest.raises(ValueError):
        ValidWriteIdList.parse(text)


def test_aborted_above_the_watermark_is_not_known_yet() -> None:
    txns = ValidTxnList(high_watermark=TxnId(5), aborted=frozenset({TxnId(7)}))
    assert not txns.is_aborted(TxnId(7))
    assert not txns.is_valid(TxnId(7))


@given(split_ids(), small, small)
def test_range_answers_count(ids: tuple[int, frozenset[int], frozenset[int]], a: int, b: int) -> None:
    """``range_valid`` and ``range_aborted`` agree with asking for each id in turn."""
    write_ids = _writes(ids)
    low, high = WriteId(min(a, b)), WriteId(max(a, b))
    every = [WriteId(w) for w in range(low, high + 1)]

    def answer(hits: int) -> RangeAnswer:
        return RangeAnswer.NONE if hits == 0 else RangeAnswer.ALL if hits == len(every) else RangeAnswer.SOME

    assert write_ids.range_valid(low, high) is answer(sum(map(write_ids.is_valid, every)))
    assert write_ids.range_aborted(low, high) is answer(sum(map(write_ids.is_aborted, every)))


@given(split_ids())
def test_base_is_valid_when_nothing_below_is_open(ids: tuple[int, frozenset[int], frozenset[int]]) -> None:
    """HIVE-29601: never above the high watermark either."""
    write_ids = _writes(ids)
    for number in range(1, ids[0] + 3):
        expected = number <= ids[0] and not any(w <= number for w in ids[1])
        assert write_ids.is_valid_base(WriteId(number)) is expected


@given(split_ids())
def test_compactor_sees_nothing_at_or_above_the_lowest_open_write_id(
    ids: tuple[int, frozenset[int], frozenset[int]],
) -> None:
    """PROTOCOL 1.1."""
    reader, compactor = _writes(ids), _writes(ids).for_compactor()
    assert isinstance(compactor, CompactorWriteIdList)
    assert compactor.open == frozenset()
    assert reader.min_open is None or compactor.high_watermark < reader.min_open
    for number in map(WriteId, range(1, compactor.high_watermark + 1)):
        assert compactor.is_valid(number) is reader.is_valid(number)
        assert compactor.is_aborted(number) is reader.is_aborted(number)


def test_compactor_takes_a_directory_wholly_or_not() -> None:
    compactor = _writes((9, frozenset({6}), frozenset({2}))).for_compactor()
    assert compactor.high_watermark == 5
    assert compactor.range_valid(WriteId(2), WriteId(5)) is RangeAnswer.ALL
    assert compactor.range_valid(WriteId(5), WriteId(6)) is RangeAnswer.NONE


def test_cleaner_ignores_what_reaches_above_its_entry() -> None:
    """PROTOCOL 7, HIVE-24314: a second compaction's inputs are left to its own entry."""
    cleaner = _writes((9, frozenset({8}), frozenset({2}))).for_cleaner(WriteId(5))
    assert isinstance(cleaner, CleanerWriteIdList)
    assert cleaner.high_watermark == 5
    assert cleaner.range_valid(WriteId(4), WriteId(6)) is RangeAnswer.NONE
    assert cleaner.range_valid(WriteId(1), WriteId(5)) is RangeAnswer.SOME
    assert not cleaner.is_valid_base(WriteId(6))
    assert cleaner.is_valid_base(WriteId(5))


def test_what_has_been_committed_since_an_older_list() -> None:
    """Transactions commit in any order, and one that was aborted and forgotten looks committed in a later list."""
    older = _writes((5, frozenset({3, 4}), frozenset({2})))
    newer = _writes((8, frozenset({4, 7}), frozenset({6})))
    assert newer.committed_since(older) == [3, 8]
    assert newer.committed_since(newer) == []


@given(split_ids(), split_ids(), small, small)
def test_what_is_later_is_seen_by_the_list_and_was_not_by_the_older_one(
    ids: tuple[int, frozenset[int], frozenset[int]], old: tuple[int, frozenset[int], frozenset[int]], a: int, b: int
) -> None:
    low, high = sorted((a, b))
    now, then = _writes(ids), _writes(old)
    later = now.since(then)
    seen = [later.is_valid(WriteId(w)) for w in range(low, high + 1)]
    assert seen == [now.is_valid(WriteId(w)) and not then.is_valid(WriteId(w)) for w in range(low, high + 1)]
    answer = RangeAnswer.ALL if all(seen) else RangeAnswer.SOME if any(seen) else RangeAnswer.NONE
    assert later.range_valid(WriteId(low), WriteId(high)) is answer


def test_cleaner_never_above_the_reader() -> None:
    assert _writes((3, frozenset(), frozenset())).for_cleaner(WriteId(9)).high_watermark == 3

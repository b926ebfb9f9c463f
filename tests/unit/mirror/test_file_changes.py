"""Choices for one file number: which data files stay, go and come (PROTOCOL 15.8)."""

from __future__ import annotations

import pytest

from compactor.acid.write_ids import ValidWriteIdList
from compactor.base.ids import WriteId
from compactor.mirror.file_changes import KeptFiles, LaterWriteIds, TaskChoice, choose_changes
from compactor.mirror.offset import MirroredFile
from compactor.rows.inputs import Input
from compactor.tables.reading.scan_tasks import NOTHING, write_id_range

FILE = "bucket_00000"


def file_of(directory: str, length: int = 100) -> Input:
    return Input(path=f"{directory}/{FILE}", length=length)


def shows(directory: str, path: str | None = None, length: int = 100) -> MirroredFile:
    low, high = write_id_range(file_of(directory))
    return MirroredFile(
        location="/t",
        partition=None,
        number=0,
        source=f"{directory}/{FILE}",
        source_length=length,
        low=low,
        high=high,
        path=path or f"mirror/{directory}",
        rows=1,
    )


def ids(high: int, *, open: tuple[int, ...] = (), aborted: tuple[int, ...] = ()) -> ValidWriteIdList:
    return ValidWriteIdList(
        table="d.t",
        high_watermark=WriteId(high),
        open=frozenset(map(WriteId, open)),
        aborted=frozenset(map(WriteId, aborted)),
    )


def choose(inputs: list[Input], files: list[MirroredFile], old: ValidWriteIdList, new: ValidWriteIdList) -> TaskChoice:
    return choose_changes(inputs, files, LaterWriteIds(old, new))


def describe(choice: TaskChoice) -> tuple[list[tuple[str, list[str], bool, bool]], list[str], list[str]]:
    return (
        [
            (of.source.path.split("/")[0], [file.path for file in of.files], of.has_later_rows, of.is_same)
            for of in choice.kept
        ],
        [of.source.path.split("/")[0] for of in choice.fresh],
        [file.path for file in choice.gone],
    )


def test_a_new_delta_is_fresh_and_a_known_one_is_kept() -> None:
    choice = choose([file_of("delta_1_1"), file_of("delta_2_2")], [shows("delta_1_1")], ids(1), ids(2))
    assert describe(choice) == ([("delta_1_1", ["mirror/delta_1_1"], False, True)], ["delta_2_2"], [])


def test_everything_is_fresh_at_first() -> None:
    choice = choose([file_of("base_3"), file_of("delta_4_4")], [], NOTHING, ids(4))
    assert describe(choice) == ([], ["base_3", "delta_4_4"], [])


def test_a_compaction_output_takes_over_the_data_files_of_its_inputs() -> None:
    files = [shows("delta_1_1"), shows("delta_2_2"), shows("delta_3_3")]
    choice = choose([file_of("base_2_v9"), file_of("delta_3_3")], files, ids(3), ids(3))
    kept, fresh, gone = describe(choice)
    assert ("base_2_v9", ["mirror/delta_1_1", "mirror/delta_2_2"], False, False) in kept
    assert (fresh, gone) == ([], [])


def test_an_output_with_later_rows_says_so() -> None:
    kept, fresh, gone = describe(
        choose([file_of("base_3_v9")], [shows("delta_1_1"), shows("delta_2_2")], ids(2), ids(3))
    )
    assert kept == [("base_3_v9", ["mirror/delta_1_1", "mirror/delta_2_2"], True, False)]
    assert (fresh, gone) == ([], [])


def test_a_file_with_a_transaction_that_was_open_has_later_rows() -> None:
    choice = choose([file_of("delta_1_5")], [shows("delta_1_5")], ids(5, open=(3,)), ids(5))
    assert describe(choice)[0] == [("delta_1_5", ["mirror/delta_1_5"], True, True)]


def test_a_streamed_file_that_grew_has_its_rows_and_later_ones() -> None:
    choice = choose([file_of("delta_1_5", 250)], [shows("delta_1_5")], ids(2, open=()), ids(5))
    assert describe(choice)[0] == [("delta_1_5", ["mirror/delta_1_5"], True, False)]


def test_an_aborted_write_id_that_is_forgotten_brings_no_row() -> None:
    later = LaterWriteIds(ids(5, aborted=(3,)), ids(5))
    assert not later
    assert not later.any_between(WriteId(0), WriteId(9))


def test_data_files_of_no_file_go() -> None:
    assert describe(choose([], [shows("delta_1_1")], ids(1), ids(1))) == ([], [], ["mirror/delta_1_1"])


def test_data_files_that_lie_partly_in_the_range_of_a_new_file_go() -> None:
    choice = choose([file_of("base_3_v9")], [shows("delta_1_1"), shows("delta_2_5")], ids(5), ids(5))
    assert describe(choice) == ([], ["base_3_v9"], ["mirror/delta_1_1", "mirror/delta_2_5"])


def test_of_two_new_files_of_one_range_neither_takes_over() -> None:
    choice = choose([file_of("delta_1_3"), file_of("delta_2_2_0001")], [shows("delta_1_1")], ids(3), ids(3))
    assert describe(choice) == ([], ["delta_1_3", "delta_2_2_0001"], ["mirror/delta_1_1"])


def test_data_files_of_one_output_stay_together() -> None:
    files = [shows("base_2_v9", "mirror/a"), shows("base_2_v9", "mirror/b")]
    assert describe(choose([file_of("base_2_v9")], files, ids(2), ids(2)))[0] == [
        ("base_2_v9", ["mirror/a", "mirror/b"], False, True)
    ]


@pytest.mark.parametrize(
    ("low", "high", "answer"), [(0, 3, False), (4, 4, True), (5, 6, False), (0, 9, True), (7, 7, True), (8, 20, False)]
)
def test_ranges_with_later_write_ids(low: int, high: int, answer: bool) -> None:
    later = LaterWriteIds(ids(6, open=(4,)), ids(7))
    assert len(later) == 2
    assert later.any_between(WriteId(low), WriteId(high)) is answer


def test_a_choice_names_every_data_file_once() -> None:
    files = [shows(f"delta_{n}_{n}") for n in range(1, 9)]
    choice = choose([file_of("base_4_v9"), file_of("delta_5_5"), file_of("delta_6_7_v10")], files, ids(8), ids(8))
    named = [file.path for of in choice.kept for file in of.files] + [file.path for file in choice.gone]
    assert sorted(named) == sorted(file.path for file in files)
    assert all(isinstance(of, KeptFiles) for of in choice.kept)

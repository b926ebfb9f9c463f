"""When a compaction can be undone, and what would move (PROTOCOL 11.15)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from compactor.acid.listing import FileStatus, Listing
from compactor.acid.write_ids import ValidTxnList, ValidWriteIdList
from compactor.base.errors import Refused
from compactor.base.ids import TxnId, WriteId
from compactor.compaction.quarantine_rules import Record
from compactor.compaction.restoring import Situation, UndoPlan, plan_undo

BASE, ONE, TWO = "base_0000002_v0000031", "delta_0000001_0000001_0000", "delta_0000002_0000002_0000"
FILES = {f"{ONE}/bucket_00000": 7, f"{TWO}/_orc_acid_version": 1, f"{TWO}/bucket_00000": 8}
OUTPUT = {f"{BASE}/bucket_00000": 9}


def listing(files: Mapping[str, int], *empty: str) -> Listing:
    directories = {path.partition("/")[0] for path in files if "/" in path} | set(empty)
    return Listing(
        files=tuple(FileStatus(path=path, length=length) for path, length in sorted(files.items())),
        directories=tuple(sorted(directories)),
    )


RECORD = Record(
    entry_id=12,
    txn=31,
    table_id=4,
    partition_id=None,
    columns="struct<a:int>",
    since=1000,
    until=5000,
    names=(ONE, TWO),
    kept=FILES,
    stays=OUTPUT,
    inputs=FILES,
    outputs=(BASE,),
)
NOW = Situation(
    table_id=4,
    partition_id=None,
    columns="struct<a:int>",
    here=listing(OUTPUT),
    kept=listing(FILES),
    write_ids=ValidWriteIdList(table="default.t", high_watermark=WriteId(9)),
    txns=ValidTxnList(high_watermark=TxnId(99)),
)


def refusal(record: Record, now: Situation) -> str:
    with pytest.raises(Refused) as error:
        plan_undo(record, now)
    return str(error.value)


def test_a_major_is_undone() -> None:
    assert plan_undo(RECORD, NOW) == UndoPlan(back=(ONE, TWO), outputs=(BASE,), bytes=16)


def test_a_second_call_goes_on_where_the_first_died() -> None:
    moved = {path: length for path, length in FILES.items() if path.startswith(ONE)}
    left = {path: length for path, length in FILES.items() if path not in moved}
    half = replace(NOW, here=listing(OUTPUT | moved), kept=listing(left))
    assert plan_undo(RECORD, half) == UndoPlan(back=(TWO,), outputs=(BASE,), bytes=9)
    assert plan_undo(RECORD, replace(NOW, here=listing(OUTPUT | FILES), kept=listing({}))).back == ()


def test_chunks_are_taken_away_one_after_the_other() -> None:
    """Each stands for its own inputs, so a call that died between two of them goes on."""
    inputs = {f"delta_000000{n}_000000{n}_0000/bucket_00000": n for n in (1, 2, 3, 4)}
    first, second = "delta_0000001_0000002_v0000031", "delta_0000003_0000004_v0000031"
    made = {f"{first}/bucket_00000": 20, f"{second}/bucket_00000": 21}
    names = tuple(path.partition("/")[0] for path in inputs)
    record = replace(RECORD, names=names, kept=inputs, inputs=inputs, stays=made, outputs=(first, second))
    whole = replace(NOW, here=listing(made), kept=listing(inputs))
    assert plan_undo(record, whole).outputs == (first, second)
    gone = {path: length for path, length in made.items() if path.startswith(first)}
    stays = {path: length for path, length in made.items() if path not in gone}
    half = replace(NOW, here=listing(inputs | stays), kept=listing(gone))
    assert plan_undo(record, half) == UndoPlan(back=(), outputs=(second,), bytes=0)


def test_original_files_go_back_to_their_paths() -> None:
    files = {"000000_0": 5, "sub/000001_0": 6}
    base = "base_-9223372036854775808_v0000031"
    made = {f"{base}/bucket_00000": 9}
    record = replace(RECORD, names=("000000_0", "sub/000001_0"), kept=files, inputs=files, stays=made, outputs=(base,))
    now = replace(NOW, here=listing(made, "sub"), kept=listing(files))
    assert plan_undo(record, now).back == ("000000_0", "sub/000001_0")


def test_an_empty_base_that_hides_older_rows_goes_back_too() -> None:
    """As TRUNCATE leaves it: no manifest lists it, for it has no file."""
    record = replace(RECORD, names=("base_0000001", TWO), kept=(kept := {f"{TWO}/bucket_00000": 8}), inputs=kept)
    now = replace(NOW, kept=listing(kept, "base_0000001"))
    assert plan_undo(record, now).back == ("base_0000001", TWO)


@pytest.mark.parametrize("ids", [{"table_id": 5}, {"partition_id": 1}])
def test_another_table_of_the_name(ids: dict[str, int]) -> None:
    assert "was dropped and created again since" in refusal(RECORD, replace(NOW, **ids))  # type: ignore[arg-type]


def test_other_columns() -> None:
    now = replace(NOW, columns="struct<a:int,b:int>")
    assert "the table's columns were struct<a:int> and are struct<a:int,b:int>" in refusal(RECORD, now)


@pytest.mark.parametrize(
    "record", [replace(RECORD, inputs=None), replace(RECORD, outputs=()), replace(RECORD, inputs={})]
)
def test_it_is_not_known_what_it_read(record: Record) -> None:
    assert "its inputs are not known" in refusal(record, NOW)


def test_an_input_that_was_not_kept() -> None:
    three = "delta_0000003_0000003_0000"
    record = replace(RECORD, inputs=FILES | {f"{three}/f": 1}, removed={three: "may hold rows of an aborted write ID"})
    assert f"its input {three}/f was not kept: it may hold rows of an aborted write ID" in refusal(record, NOW)
    assert "it was gone when it was cleaned" in refusal(replace(record, removed={}), NOW)


@pytest.mark.parametrize(
    ("here", "said"),
    [
        ({}, f"its output {BASE} is gone"),
        ({"base_0000004_v0000040/bucket_00000": 3}, f"its output {BASE} is gone"),
        (OUTPUT | {"delta_0000003_0000003_0000/bucket_00000": 3}, "delta_0000003_0000003_0000 has later writes"),
        (OUTPUT | {"base_0000002_v0000040/bucket_00000": 3}, "base_0000002_v0000040 did not exist when it was cleaned"),
        (OUTPUT | {"delta_0000001_0000001_0007/f": 3}, "delta_0000001_0000001_0007 did not exist when it was cleaned"),
        ({f"{BASE}/bucket_00000": 10}, f"{BASE}/bucket_00000 has changed since it was cleaned: there was 9 bytes"),
        (
            OUTPUT | {f"{BASE}/bucket_00001": 1},
            f"{BASE}/bucket_00001 has changed since it was cleaned: there was no such",
        ),
        (OUTPUT | {"000000_0": 1}, "000000_0 has changed since it was cleaned"),
        (
            OUTPUT | {f"{ONE}/bucket_00000": 7},
            f"{ONE}/bucket_00000 had 7 bytes when it was kept, and now is in two places",
        ),
    ],
)
def test_what_is_there_has_changed(here: dict[str, int], said: str) -> None:
    assert said in refusal(RECORD, replace(NOW, here=listing(here)))


def test_a_writer_that_has_only_begun() -> None:
    now = replace(NOW, here=listing(OUTPUT, "delta_0000003_0000003_0000"))
    assert "has later writes than its output" in refusal(RECORD, now)


@pytest.mark.parametrize(
    ("kept", "said"),
    [
        ({path: n for path, n in FILES.items() if not path.startswith(ONE)}, "when it was kept, and now is gone"),
        (FILES | {f"{ONE}/bucket_00000": 6}, f"{ONE}/bucket_00000 had 7 bytes when it was kept, and now has 6"),
        (FILES | {f"{ONE}/bucket_00001": 6}, f"{ONE}/bucket_00001 was put into the quarantine since"),
    ],
)
def test_what_is_kept_has_changed(kept: dict[str, int], said: str) -> None:
    assert said in refusal(RECORD, replace(NOW, kept=listing(kept)))


def test_a_pair_cannot_be_taken_away_in_one_step() -> None:
    pair = ("delete_delta_0000001_0000002_v0000031", "delta_0000001_0000002_v0000031")
    made = {f"{name}/bucket_00000": 9 for name in pair}
    record = replace(RECORD, stays=made, outputs=pair)
    assert "its output is a pair" in refusal(record, replace(NOW, here=listing(made)))


def test_what_was_undone_already() -> None:
    now = replace(NOW, here=listing(FILES), kept=listing(OUTPUT))
    assert "or it was undone already" in refusal(RECORD, now)


def test_an_output_that_readers_no_longer_read() -> None:
    """As after a restored metastore calls its transaction aborted."""
    now = replace(NOW, txns=replace(NOW.txns, aborted=frozenset({TxnId(31)})))
    assert "readers no longer read it" in refusal(RECORD, now)


def test_an_input_that_readers_would_not_read() -> None:
    """Its write ID is aborted now, as a restored metastore may say."""
    now = replace(NOW, write_ids=replace(NOW.write_ids, aborted=frozenset({WriteId(1)})))
    assert f"readers would not read its inputs: {ONE} differ" in refusal(RECORD, now)


def test_a_directory_that_it_did_not_read_and_that_would_be_read() -> None:
    record = replace(RECORD, inputs={path: n for path, n in FILES.items() if path.startswith(TWO)})
    assert f"readers would not read its inputs: {ONE} differ" in refusal(record, NOW)

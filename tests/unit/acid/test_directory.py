"""``acid_directory`` against golden cases: each file of tests/golden/acid_state is a listing and its expected state."""

from __future__ import annotations

from pathlib import Path

import pytest

from compactor.acid.directory import AcidDirectory, acid_directory
from compactor.acid.listing import FileStatus, Listing
from compactor.acid.write_ids import CleanerWriteIdList, CompactorWriteIdList, ValidTxnList, ValidWriteIdList
from compactor.base.errors import NotEnoughHistory
from compactor.base.ids import TxnId, WriteId

GOLDEN = Path(__file__).parents[2] / "golden" / "acid_state"
FLAVOURS = {"reader": ValidWriteIdList, "compactor": CompactorWriteIdList, "cleaner": CleanerWriteIdList}


def _read(case: Path) -> tuple[Listing, ValidWriteIdList, ValidTxnList, dict[str, str]]:
    head: dict[str, str] = {}
    files: list[FileStatus] = []
    state: dict[str, str] = {}
    section = ""
    for line in case.read_text().splitlines():
        if line.startswith("#"):
            continue
        if not line.startswith(" "):
            section, _, value = line.partition(": ") if ": " in line else (line.rstrip(":"), "", "")
            head[section] = value
        elif section == "listing":
            path, _, length = line.strip().rpartition(" ")
            files.append(FileStatus(path=path, length=int(length)))
        else:
            key, _, value = line.strip().partition(": ")
            state[key] = value
    flavour, _, text = head["write_ids"].partition(" ")
    listing = Listing(files=tuple(files), directories=tuple({f.path.split("/")[0] for f in files if "/" in f.path}))
    return listing, FLAVOURS[flavour].parse(text), ValidTxnList.parse(head.get("txns", "")), state


def _shown(directory: AcidDirectory, asked: dict[str, str]) -> dict[str, str]:
    left_out = {acid.name for acid in directory.left_out}
    shown = {
        "base": directory.base.directory if directory.base else "",
        "deltas": ", ".join(d.directory for d in directory.deltas),
        "originals": ", ".join(f.path for f in directory.originals),
        "obsolete": ", ".join(directory.obsolete),
        "aborted": ", ".join(directory.aborted),
        "left_out": ", ".join(sorted(left_out)),
        "unseen": ", ".join(directory.unseen),
        "unparsable": ", ".join(directory.unparsable),
        "uncompacted_aborts": "true" if directory.has_uncompacted_aborts else "",
    }
    shown = {key: value for key, value in shown.items() if value}
    if "compactable" in asked:
        shown["compactable"] = ", ".join(d.directory for d in directory.compactable()) or "none"
    return shown


def _padded(names: str) -> str:
    """Returns ``names`` in full length; the cases abbreviate some of them, as Hive's own tests do."""
    from compactor.acid.names import parse_directory

    return ", ".join(sorted(parsed.name if (parsed := parse_directory(n)) else n for n in names.split(", ")))


@pytest.mark.parametrize("case", sorted(GOLDEN.glob("*.txt")), ids=lambda path: path.stem)
def test_golden(case: Path) -> None:
    """Hive's ``getAcidState`` and the rules that the files name (PROTOCOL 1.2, 1.4; HIVE-25777, 29210, 29601)."""
    listing, write_ids, txns, expected = _read(case)
    if "error" in expected:
        with pytest.raises(NotEnoughHistory, match=expected["error"]):
            acid_directory(listing, write_ids, txns)
        return
    if "left_out" in expected:
        expected["left_out"] = _padded(expected["left_out"])
    assert _shown(acid_directory(listing, write_ids, txns), expected) == expected


def test_there_are_cases() -> None:
    assert len(list(GOLDEN.glob("*.txt"))) >= 40


def _listing(*paths: str) -> Listing:
    return Listing(files=tuple(FileStatus(path=path, length=10) for path in paths))


ALL_TXNS = ValidTxnList.parse("")
ALL = ValidWriteIdList.parse("")


def test_exempt_transactions_are_ignored() -> None:
    """A compaction that plans again neither reads what it named itself nor takes it for a reason to skip others."""
    listing = _listing("delta_1_1_0/bucket_0", "delta_2_2_0/bucket_0", "delta_1_2_v7/bucket_0")
    directory = acid_directory(listing, ALL, ALL_TXNS, exempt=frozenset({TxnId(7)}))
    assert [d.directory for d in directory.deltas] == ["delta_1_1_0", "delta_2_2_0"]
    assert directory.obsolete == ()


def test_exempting_zero_has_no_effect() -> None:
    """A name without ``_v`` has no transaction: a user's directories are never exempt."""
    directory = acid_directory(_listing("delta_1_1_0/bucket_0"), ALL, ALL_TXNS, exempt=frozenset({TxnId(0)}))
    assert [d.directory for d in directory.deltas] == ["delta_1_1_0"]


def test_aborted_write_ids_of_removed_directories() -> None:
    """PROTOCOL 8: only write IDs with removed directories may be forgotten; one inside a shared delta stays."""
    write_ids = ValidWriteIdList.parse("db.t:9:9223372036854775807::2,3,5")
    listing = _listing("delta_1_1_0/bucket_0", "delta_2_3/bucket_0", "delta_4_6/bucket_0")
    directory = acid_directory(listing, write_ids, ALL_TXNS)
    assert directory.aborted == ("delta_2_3",)
    assert directory.aborted_write_ids == {2, 3}
    assert directory.has_uncompacted_aborts


def test_hive_3_base_is_compacted_by_its_metadata() -> None:
    """Hive 3's major has no ``_v``; its ``_metadata_acid`` says that it holds all write IDs below its own."""
    listing = Listing(
        files=(FileStatus(path="base_5/bucket_00000", length=9),),
        directories=("base_5",),
        data_formats={"base_5": "compacted"},
    )
    open_below = ValidWriteIdList.parse("db.t:9:3:3:")
    with pytest.raises(NotEnoughHistory):
        acid_directory(listing, open_below, ALL_TXNS)
    overwrite = Listing(files=listing.files, directories=listing.directories)
    base = acid_directory(overwrite, open_below, ALL_TXNS).base
    assert base is not None
    assert base.directory == "base_5"


def test_aborted_number_of_a_compacted_base() -> None:
    """A major may end with an aborted write ID; only an INSERT OVERWRITE's own number makes its base aborted."""
    directory = acid_directory(
        _listing("base_3_v9/bucket_0"), ValidWriteIdList.parse("t:3:9:: 3".replace(" ", "")), ALL_TXNS
    )
    assert directory.base is not None
    assert directory.aborted == ()


def test_sizes() -> None:
    listing = _listing("000000_0", "000001_0", "delta_1_1_0/bucket_0", "delete_delta_2_2_0/bucket_0")
    directory = acid_directory(listing, ALL, ALL_TXNS)
    assert (directory.base_bytes, directory.delta_bytes) == (20, 20)
    assert [d.directory for d in directory.insert_deltas] == ["delta_1_1_0"]
    assert [d.directory for d in directory.delete_deltas] == ["delete_delta_2_2_0"]


@pytest.mark.parametrize("order", [1, -1])
def test_order_of_the_listing_does_not_matter(order: int) -> None:
    names = ["base_5_v9", "base_5", "delta_6_6_0", "delete_delta_6_6_0", "delta_6_7_v10", "delete_delta_6_7_v10"]
    listing = _listing(*(f"{name}/bucket_0" for name in names[::order]))
    directory = acid_directory(listing, ALL, ALL_TXNS)
    assert directory.base is not None
    assert directory.base.directory == "base_5_v9"
    assert [d.directory for d in directory.deltas] == ["delete_delta_6_7_v10", "delta_6_7_v10"]
    assert directory.obsolete == ("base_5", "delete_delta_6_6_0", "delta_6_6_0")


def test_compactable_stops_before_a_directory_above_the_watermark() -> None:
    """PROTOCOL 1.2: an output never reaches into the range of a directory that was left out."""
    write_ids = ValidWriteIdList(
        table="db.t", high_watermark=WriteId(6), open=frozenset(map(WriteId, (4, 5, 6)))
    ).for_compactor()
    assert write_ids.high_watermark == 3
    listing = _listing("base_1_v3/bucket_0", "delta_2_6/bucket_0", "delta_3_3_0/bucket_0")
    directory = acid_directory(listing, write_ids, ALL_TXNS)
    assert [d.directory for d in directory.deltas] == ["delta_3_3_0"]
    assert directory.compactable() == ()

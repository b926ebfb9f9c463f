"""Names of directories and files, parsed and formatted."""

from __future__ import annotations

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compactor.acid.names import (
    Base,
    BucketFile,
    Delta,
    DeltaKind,
    DirectoryClaim,
    Hidden,
    OriginalFile,
    Quarantine,
    is_skipped,
    is_skipped_below,
    parse_claim,
    parse_directory,
    parse_file,
    parse_hidden,
    parse_quarantine,
    parse_staging,
    staging_name,
)
from compactor.base.errors import BadName
from compactor.base.ids import ORIGINALS_ONLY, TxnId, WriteId

write_ids = st.integers(0, 2**63 - 1).map(WriteId)
txns = st.one_of(st.just(TxnId(0)), st.integers(1, 2**63 - 1).map(TxnId))
bases = st.builds(Base, write_id=st.one_of(write_ids, st.just(ORIGINALS_ONLY)), visibility_txn_id=txns)


@st.composite
def deltas(draw: st.DrawFn) -> Delta:
    low, high = sorted((draw(write_ids), draw(write_ids)))
    return Delta(
        kind=draw(st.sampled_from(DeltaKind)),
        min_write_id=low,
        max_write_id=high,
        statement_id=draw(st.none() | st.integers(0, 4095)),
        visibility_txn_id=draw(txns),
    )


@given(st.one_of(bases, deltas()))
def test_directory_round_trip(acid: Base | Delta) -> None:
    assert parse_directory(acid.name) == acid
    assert not is_skipped(acid.name)


@given(st.one_of(bases, deltas()), st.integers(0, 2**63 - 1).map(TxnId))
def test_hidden_round_trip(acid: Base | Delta, until: TxnId) -> None:
    """A directory that waits to be removed is hidden from every reader and keeps its final name."""
    hidden = Hidden(final_name=acid.name, until=until)
    assert parse_hidden(hidden.name) == hidden
    assert is_skipped(hidden.name)
    assert parse_directory(hidden.name) is None


@given(st.integers(0, 2**63 - 1), st.booleans())
def test_quarantine_round_trip(entry_id: int, is_erased: bool) -> None:
    """PROTOCOL 11.15: hidden from every reader, Impala too, and nothing that another release sweeps."""
    found = Quarantine(entry_id=entry_id, is_erased=is_erased)
    assert parse_quarantine(found.name) == found
    assert found.name.startswith(".")
    assert is_skipped(found.name)
    assert (parse_hidden(found.name), parse_staging(found.name), parse_directory(found.name)) == (None, None, None)
    assert parse_quarantine(f"{found.name}_") is None


@given(st.integers(0, 99999), st.none() | st.integers(0, 999))
def test_bucket_round_trip(number: int, attempt: int | None) -> None:
    bucket = BucketFile(number=number, attempt=attempt)
    assert parse_file(bucket.name) == bucket


@given(st.integers(1, 2**63 - 1).map(TxnId))
def test_staging_round_trip(txn: TxnId) -> None:
    assert parse_staging(staging_name(txn)) == txn
    assert is_skipped(staging_name(txn))


@given(st.text(max_size=40))
def test_any_text_is_none_or_parsed_or_refused(text: str) -> None:
    """Bad input raises BadName, never another exception, and only if it begins like an ACID directory's name."""
    try:
        parse_directory(text)
    except BadName:
        assert text.startswith(("base_", "delta_", "delete_delta_"))
    parse_file(text)
    parse_staging(text)
    parse_hidden(text)


@pytest.mark.parametrize(
    ("acid", "name"),
    [
        (Base(write_id=WriteId(7)), "base_0000007"),
        (Base(write_id=WriteId(1234567890)), "base_1234567890"),
        (Base(write_id=WriteId(25), visibility_txn_id=TxnId(26)), "base_0000025_v0000026"),
        (Base(write_id=ORIGINALS_ONLY, visibility_txn_id=TxnId(5)), "base_-9223372036854775808_v0000005"),
        (
            Delta(kind=DeltaKind.INSERT, min_write_id=WriteId(1), max_write_id=WriteId(10)),
            "delta_0000001_0000010",
        ),
        (
            Delta(kind=DeltaKind.DELETE, min_write_id=WriteId(1), max_write_id=WriteId(10), statement_id=5),
            "delete_delta_0000001_0000010_0005",
        ),
        (
            Delta(
                kind=DeltaKind.INSERT,
                min_write_id=WriteId(1234567880),
                max_write_id=WriteId(1234567890),
                visibility_txn_id=TxnId(12345678),
            ),
            "delta_1234567880_1234567890_v12345678",
        ),
    ],
)
def test_directory_names_are_hives(acid: Base | Delta, name: str) -> None:
    """Hive TestAcidUtils.testCreateFilename, testCreateFilenameLargeIds."""
    assert acid.name == name
    assert parse_directory(name) == acid


@pytest.mark.parametrize(
    "name",
    [
        "base_",
        "base_x",
        "base_-5",
        "base_5_0001",
        "base_5_v",
        "base_9223372036854775808",
        "delta_1",
        "delta_1_x",
        "delta_5_3",
        "delta_1_2_3_4",
        "delta_1_2_v3_4",
        "delete_delta_1_2_",
        "delta_٣_٣",
        "base_5 ",
        "base_5\n",
    ],
)
def test_bad_names(name: str) -> None:
    with pytest.raises(BadName) as error:
        parse_directory(name)
    assert "write ID" in str(error.value) or repr(name) in str(error.value)


@pytest.mark.parametrize("name", ["", "subdir", "Base_5", "delta", "deltas_1_1", "HIVE_UNION_SUBDIR_1", "p=delta_1_1"])
def test_other_directories(name: str) -> None:
    assert parse_directory(name) is None


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("bucket_00003", BucketFile(number=3)),
        ("bucket_00003_0", BucketFile(number=3, attempt=0)),
        ("bucket_3", BucketFile(number=3)),
        ("000003_0", OriginalFile(number=3, name="000003_0")),
        ("000003_0_copy_12", OriginalFile(number=3, name="000003_0_copy_12")),
        ("123456789_0", OriginalFile(number=123456789, name="123456789_0")),
        ("bucket_00003_flush_length", None),
        ("bucket_00003_0_1", None),
        ("000003_0_copy_", None),
        ("000003", None),
        ("random", None),
        ("_orc_acid_version", None),
    ],
)
def test_file_names(name: str, expected: BucketFile | OriginalFile | None) -> None:
    assert parse_file(name) == expected


@pytest.mark.parametrize(
    "name",
    [
        "_tmp_a",
        "_orc_acid_version",
        ".hive-staging_hive_1",
        ".crc",
        "-tmp.delta_1_1_0",
        ".compactor_v3",
        "_metadata_acid",
    ],
)
def test_skipped(name: str) -> None:
    """PROTOCOL 3.1: names that readers never look at, and Hive 4 writers' visible ``-tmp.`` manifests."""
    assert is_skipped(name)
    assert is_skipped_below(f"delta_1_1/{name}")
    assert is_skipped_below(f"delta_1_1/{name}/000000_0")
    assert not is_skipped_below(f"{name}/000000_0")


@pytest.mark.parametrize("name", ["-data", "tmp", "delta_1_1", "bucket_00000"])
def test_not_skipped(name: str) -> None:
    assert not is_skipped(name)
    assert not is_skipped_below(f"delta_1_1/{name}/{name}")


@given(st.uuids(), st.integers(min_value=0, max_value=2**63 - 2))
def test_claim_round_trip(token: uuid.UUID, table_id: int) -> None:
    """PROTOCOL 11.13: every reader skips it."""
    claim = DirectoryClaim(token=token.hex, table_id=table_id)
    assert parse_claim(claim.name) == claim
    assert is_skipped(claim.name)


@pytest.mark.parametrize(
    "name", ["", ".compactor_claim_", f".compactor_claim_{'0' * 31}_1", f".compactor_claim_{'0' * 32}_{2**64}", "x"]
)
def test_what_is_not_a_claim(name: str) -> None:
    assert parse_claim(name) is None

"""Decisions, their reasons, and what would flip them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compactor.acid.directory import AcidDirectory, acid_directory
from compactor.acid.listing import FileStatus, Listing
from compactor.acid.write_ids import ValidTxnList, ValidWriteIdList
from compactor.compaction.decision import (
    AbortCleanup,
    CleanOnly,
    Decision,
    Enough,
    Facts,
    Major,
    Minor,
    NothingToDo,
    NotNeeded,
    check_enough,
    decide,
)
from compactor.compaction.states import CompactionType
from compactor.settings.precedence import Layer, Settings, with_table

HOUR = 3_600_000
HIVE_3 = {"hive.compactor.clean.aborts.using.cleaner": "false"}


def _decide(facts: Facts, values: dict[str, str] | None = None) -> Decision:
    return decide(facts, Settings.of([Layer(name="flag", values=values or {})]))


def _facts(base: int = 0, delta: int = 0, deltas: int = 0, **more: int | bool | None) -> Facts:
    return Facts(base_bytes=base, delta_bytes=delta, deltas=deltas, has_base=base > 0, **more)  # type: ignore[arg-type]


def _directory(*names: str, write_ids: str = "") -> AcidDirectory:
    files = tuple(FileStatus(path=name if name[0] == "0" else f"{name}/bucket_00000", length=10) for name in names)
    return acid_directory(Listing(files=files), ValidWriteIdList.parse(write_ids), ValidTxnList.parse(""))


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        (_facts(20, 4, 2), Major),
        (_facts(50, 4, 2), NotNeeded),
        (_facts(200, 11, 11), Minor),
        (_facts(200, 22, 2), Major),
        (_facts(250, 22, 2), NotNeeded),
        (_facts(200, 121, 11), Major),
        (_facts(0, 11, 11), Major),
        (_facts(0, 10, 10), NotNeeded),
        (_facts(0, 0, 0), NotNeeded),
    ],
)
def test_cases_of_hives_initiator(facts: Facts, expected: type[Decision]) -> None:
    """Hive TestInitiator: 0.2 > 0.1 is major, 0.08 is none, 11 single-row deltas are minor, without a base major."""
    assert type(_decide(facts)) is expected


@pytest.mark.parametrize(("deltas", "expected"), [(10, NotNeeded), (11, Minor)])
def test_the_number_of_deltas_is_compared_strictly(deltas: int, expected: type[Decision]) -> None:
    assert type(_decide(_facts(10_000, 1, deltas))) is expected


@pytest.mark.parametrize(("bytes_", "expected"), [(100, NotNeeded), (101, Major)])
def test_the_ratio_is_compared_strictly(bytes_: int, expected: type[Decision]) -> None:
    assert type(_decide(_facts(1000, bytes_, 2))) is expected


def test_size_comes_before_number() -> None:
    """Both thresholds crossed: major, as in Hive's order."""
    assert "of the base's" in _decide(_facts(100, 50, 20)).because


def test_because_flips_and_numbers() -> None:
    decision = _decide(_facts(10_000, 12, 12))
    assert isinstance(decision, Minor)
    assert decision.because == "12 deltas > 10 (hive.compactor.delta.num.threshold)"
    assert decision.flips == ("hive.compactor.delta.num.threshold of 12 or more",)
    assert decision.numbers["deltas"] == 12
    assert decision.numbers["hive.compactor.delta.num.threshold"] == 10
    assert (decision.name, decision.type) == ("Minor", CompactionType.MINOR)
    calm = _decide(_facts(1000, 20, 2))
    assert calm.because == (
        "2 deltas <= 10 (hive.compactor.delta.num.threshold), "
        "deltas are 0.02 of the base <= 0.1 (hive.compactor.delta.pct.threshold)"
    )
    assert calm.flips[:2] == ("more than 10 deltas (now 2)", "more than 100 bytes in deltas (now 20)")
    assert calm.type is None


@given(
    base=st.integers(0, 1000),
    delta=st.integers(0, 1000),
    deltas=st.integers(0, 30),
    num=st.integers(0, 30),
    aborts=st.integers(0, 2000),
)
def test_any_facts_lead_to_a_decision(base: int, delta: int, deltas: int, num: int, aborts: int) -> None:
    """Every decision has a reason, and no worker would turn down its request at once (DESIGN 8.6)."""
    facts = _facts(base, delta, deltas, aborts=aborts)
    decision = _decide(facts, {"hive.compactor.delta.num.threshold": str(num)})
    assert decision.because
    if isinstance(decision, Minor):
        assert deltas >= 2
    if isinstance(decision, Major):
        assert deltas + (base > 0) >= 2


def test_thresholds_of_the_table() -> None:
    settings = with_table(Settings.of(), {"compactorthreshold.hive.compactor.delta.num.threshold": "1"})
    assert type(decide(_facts(10_000, 2, 2), settings)) is Minor


def test_unparsable_name_stops_everything() -> None:
    decision = _decide(_facts(10, 1000, 100, unparsable=("delta_x",)))  # type: ignore[arg-type]
    assert type(decision) is NotNeeded
    assert "'delta_x' begins like a base or delta but is not one" in decision.because


def test_an_impossible_minor_becomes_a_major() -> None:
    assert type(_decide(_facts(10_000, 11, 11, minor_supported=False))) is Major
    decision = _decide(_facts(10_000, 11, 11, minor_supported=False, is_insert_only=True))
    assert decision.because.endswith("and no minor compaction of an insert-only table")


def test_two_bases_and_no_deltas() -> None:
    """Hive's multi-base rule asks for a major; its worker finds nothing to merge and lets the cleaner clean."""
    decision = _decide(_facts(100, 0, 0, obsolete=1, base_obsolete=True))
    assert type(decision) is CleanOnly
    assert decision.type is CompactionType.MAJOR
    assert type(_decide(_facts(100, 0, 0, obsolete=1))) is NotNeeded


def test_one_delta_over_the_threshold_is_not_asked_for_again_and_again() -> None:
    decision = _decide(_facts(0, 5, 1), {"hive.compactor.delta.num.threshold": "0"})
    assert type(decision) is NotNeeded
    assert decision.because == (
        "1 delta > 0 (hive.compactor.delta.num.threshold), and no base, but one delta alone merges with nothing"
    )
    obsolete = _decide(_facts(0, 5, 1, obsolete=3), {"hive.compactor.delta.num.threshold": "0"})
    assert type(obsolete) is CleanOnly


@pytest.mark.parametrize(
    ("aborts", "age", "expected"),
    [
        (1000, 0, NotNeeded),
        (1001, 0, AbortCleanup),
        (1, 12 * HOUR, NotNeeded),
        (1, 12 * HOUR + 1, AbortCleanup),
        (0, None, NotNeeded),
    ],
)
def test_aborts_are_a_request_of_their_own(aborts: int, age: int | None, expected: type[Decision]) -> None:
    decision = _decide(_facts(1000, 1, 1, aborts=aborts, oldest_abort_age_ms=age))
    assert type(decision) is expected
    assert decision.type is (CompactionType.ABORT_CLEANUP if expected is AbortCleanup else None)


def test_compaction_comes_before_abort_cleanup() -> None:
    """A compaction's cleaning removes aborted directories too; in the other order aborts would starve compaction."""
    assert type(_decide(_facts(100, 50, 2, aborts=5000))) is Major


@pytest.mark.parametrize(
    ("aborts", "age", "expected"),
    [(11, 0, Major), (10, 0, NotNeeded), (1, 13 * HOUR, Minor), (11, 13 * HOUR, Major)],
)
def test_aborts_by_compaction(aborts: int, age: int, expected: type[Decision]) -> None:
    """Hive 3, and Hive 4 without clean.aborts.using.cleaner: too many are a major, an old one is a minor."""
    facts = _facts(1000, 3, 3, aborts=aborts, oldest_abort_age_ms=age)
    assert type(_decide(facts, {**HIVE_3, "hive.compactor.abortedtxn.threshold": "10"})) is expected


@pytest.mark.parametrize("by_cleaner", ["true", "false"])
def test_negative_age_turns_the_rule_off(by_cleaner: str) -> None:
    facts = _facts(1000, 3, 3, aborts=1, oldest_abort_age_ms=10**12)
    values = {
        "hive.compactor.aborted.txn.time.threshold": "-1",
        "hive.compactor.clean.aborts.using.cleaner": by_cleaner,
    }
    assert type(_decide(facts, values)) is NotNeeded


def test_the_age_is_given_in_hours() -> None:
    decision = _decide(_facts(1000, 1, 1, aborts=1, oldest_abort_age_ms=13 * HOUR))
    assert decision.because.startswith("oldest aborted transaction is 13 h old > 12 h")


def test_facts_of_a_directory() -> None:
    """PROTOCOL 1.2: only what a compaction may read is counted."""
    directory = _directory(
        "base_1", "base_3", "delta_4_4_0", "delete_delta_4_4_1", "delta_5_9", "delta_6_6_0", "delta_2_2_0",
        write_ids="db.t:9:8:8:",
    )  # fmt: skip
    facts = Facts.from_directory(directory, aborts=2, oldest_abort_age_ms=5)
    assert (facts.deltas, facts.delete_deltas, facts.delta_bytes) == (3, 1, 30)
    assert (facts.base_bytes, facts.has_base, facts.obsolete, facts.base_obsolete) == (10, True, 3, True)
    assert (facts.aborts, facts.oldest_abort_age_ms) == (2, 5)
    limited = _directory("delta_1_1_0", "delta_2_6", "delta_3_3_0", write_ids="db.t:6:4:4,5,6:")
    assert Facts.from_directory(limited).deltas == 2
    compactor = acid_directory(
        Listing(files=tuple(FileStatus(path=f"{n}/b", length=1) for n in ("delta_1_1_0", "delta_2_6", "delta_3_3_0"))),
        ValidWriteIdList.parse("db.t:6:4:4,5,6:").for_compactor(),
        ValidTxnList.parse(""),
    )
    assert Facts.from_directory(compactor).deltas == 1


def test_originals_count_as_the_base() -> None:
    facts = Facts.from_directory(_directory("000000_0", "000001_0", "delta_1_1_0"))
    assert (facts.base_bytes, facts.originals, facts.has_base) == (20, 2, False)


@pytest.mark.parametrize(
    ("names", "type_", "because"),
    [
        (["base_1", "delta_2_2_0"], CompactionType.MAJOR, None),
        (["delta_1_1_0", "delta_2_2_0"], CompactionType.MAJOR, None),
        (["000000_0"], CompactionType.MAJOR, None),
        (["delta_1_1_0"], CompactionType.MAJOR, "one delta alone"),
        (["base_1"], CompactionType.MAJOR, "a base alone"),
        ([], CompactionType.MAJOR, "the directory is empty"),
        (["delta_1_1_0", "delta_2_2_0"], CompactionType.MINOR, None),
        (["delete_delta_1_1_0", "delete_delta_2_2_0"], CompactionType.MINOR, None),
        (["delta_1_1_0", "delete_delta_2_2_0"], CompactionType.MINOR, "one delta and one delete delta"),
        (["delta_1_1_0", "delete_delta_2_2_0", "delta_2_2_1"], CompactionType.MINOR, None),
        (["base_1", "delta_2_2_0"], CompactionType.MINOR, "found 1"),
        (["000000_0", "000001_0"], CompactionType.MINOR, "found 0"),
        ([], CompactionType.REBALANCE, None),
        (["base_1", "delta_2_2_0"], CompactionType.ABORT_CLEANUP, "merges nothing"),
    ],
)
def test_enough(names: list[str], type_: CompactionType, because: str | None) -> None:
    """Hive's ``isEnoughToCompact``."""
    verdict = check_enough(_directory(*names), type_)
    if because is None:
        assert verdict == Enough()
    else:
        assert isinstance(verdict, NothingToDo)
        assert because in verdict.because
        assert not verdict.obsolete


@pytest.mark.parametrize(
    ("lowest", "waiting", "found"), [(1, 3, "nothing may be merged yet"), (2, 2, "one delta alone")]
)
def test_deltas_waiting_for_an_open_transaction_are_reported(lowest: int, waiting: int, found: str) -> None:
    """A directory full of deltas is not reported as empty when none of them may be read yet."""
    names = ("delta_1_1_0", "delta_2_2_0", "delta_3_3_0")
    directory = acid_directory(
        Listing(files=tuple(FileStatus(path=f"{name}/bucket_00000", length=1) for name in names)),
        ValidWriteIdList.parse(f"db.t:3:{lowest}:{lowest}:").for_compactor(),
        ValidTxnList.parse(""),
    )
    wait = f"; {waiting} directories wait for an open transaction to end"
    for type_, said in (
        (CompactionType.MAJOR, found),
        (CompactionType.MINOR, f"needs two deltas, found {3 - waiting}"),
    ):
        verdict = check_enough(directory, type_)
        assert isinstance(verdict, NothingToDo)
        assert said in verdict.because
        assert wait in verdict.because
    assert wait in _decide(Facts.from_directory(directory)).because


def test_only_cleaning_is_left_to_do() -> None:
    assert check_enough(_directory("base_1", "base_2"), CompactionType.MAJOR) == NothingToDo(
        because="a base alone is a major compaction's result", obsolete=True
    )
    aborted = _directory("base_1", "delta_2_2_0", write_ids="db.t:2:9::2")
    verdict = check_enough(aborted, CompactionType.MAJOR)
    assert isinstance(verdict, NothingToDo)
    assert verdict.obsolete


@pytest.mark.parametrize(
    ("readers", "expected"), [("strict", Minor), ("trino", Minor), ("any", NotNeeded), ("visibility", NotNeeded)]
)
def test_delete_deltas_that_trino_does_not_apply_are_due_where_it_reads(readers: str, expected: type[Decision]) -> None:
    """All DML of Hive 4 writes ``bucket_00000_0``; Trino looks for ``bucket_00000`` and shows deleted rows."""
    facts = _facts(200, 4, 1, delete_deltas=1, numbered_attempts=1)
    found = _decide(facts, {"compactor.readers": readers})
    assert type(found) is expected
    if expected is Minor:
        assert found.because == (
            f"1 delete delta has files with attempt numbers, which Trino does not apply (compactor.readers = {readers})"
        )
        assert type(_decide(replace(facts, minor_supported=False), {"compactor.readers": readers})) is Major


@pytest.mark.parametrize(
    ("names", "misread"),
    [
        (["base_1_v7/000000_0"], ("base_1_v7",)),
        (["base_1_v7/000000_0", "delta_2_2_0/bucket_00000"], ("base_1_v7",)),
        (["base_1/000000_0", "delta_2_4_v9/000000_0"], ("delta_2_4_v9",)),
        (["base_1/000000_0"], ()),  # of INSERT OVERWRITE, which Hive looks into
        (["base_1_v7/bucket_00000"], ()),
        (["delta_2_2_0/000000_0"], ()),  # of LOAD DATA
        (["000000_0"], ()),
    ],
)
def test_what_was_compacted_while_the_table_was_insert_only_is_mended(
    names: list[str], misread: tuple[str, ...]
) -> None:
    files = tuple(FileStatus(path=name, length=10) for name in names)
    directory = acid_directory(
        Listing(files=files), ValidWriteIdList.parse(""), ValidTxnList.parse("99:9223372036854775807::")
    )
    assert directory.misread == misread
    decision = _decide(Facts.from_directory(directory))
    assert (isinstance(decision, Major), decision.mends) == (bool(misread), bool(misread))
    if misread:
        assert check_enough(directory, CompactionType.MAJOR) == Enough()
    if len(names) == 1 and misread:
        assert isinstance(check_enough(directory, CompactionType.MAJOR, is_insert_only=True), NothingToDo)
        assert not _decide(Facts.from_directory(directory, is_insert_only=True)).mends


def test_only_delete_deltas_with_attempt_numbers_count() -> None:
    names = (
        "base_0000002",
        "delta_0000003_0000003_0000/bucket_00000_0",
        "delete_delta_0000004_0000004_0000/bucket_00000",
    )
    files = tuple(FileStatus(path=name if "/" in name else f"{name}/bucket_00000_0", length=10) for name in names)
    alone = FileStatus(path="delete_delta_0000005_0000005_0000/bucket_00001_0", length=10)
    for more, count in (((), 0), ((alone,), 1)):
        found = acid_directory(Listing(files=(*files, *more)), ValidWriteIdList.parse(""), ValidTxnList.parse(""))
        assert Facts.from_directory(found).numbered_attempts == count
    only = acid_directory(Listing(files=(files[0], alone)), ValidWriteIdList.parse(""), ValidTxnList.parse(""))
    assert check_enough(only, CompactionType.MINOR) == Enough()

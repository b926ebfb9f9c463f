"""Events in a table's life, as values that Hypothesis draws."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from tests.model.files import Layout

COMMIT, ABORT, STAY_OPEN = "commit", "abort", "stay open"

#: Values of each type in the order in which they are handed out, the odd ones first. None is added by ``value``.
VALUES: dict[str, tuple[Any, ...]] = {
    "boolean": (True, False),
    "tinyint": (-128, 127, 0, 7),
    "smallint": (-(2**15), 2**15 - 1, 0, 11),
    "int": (-(2**31), 2**31 - 1, 0, 1, -1, 97),
    "bigint": (-(2**63), 2**63 - 1, 0, 12_345_678_901),
    "float": (1.5, -0.0, math.inf, math.nan, 0.0),
    "double": (0.1, -0.0, -math.inf, math.nan, 1e300),
    "string": ("", "x", "żółć ☃", "a" * 300, "line\nbreak", "\0"),
    "varchar(5)": ("", "abcde", "☃"),
    "varchar(20)": ("", "abcdefghijklmno", "☃"),
    "char(4)": ("", "ab", "abcd", "☃"),
    "binary": (b"", b"\xff\x00", b"bytes" * 20),
    "date": (0, -1, 18_000, -200_000, 2_900_000),
    "timestamp": ((0, 0), (1_600_000_000, 123_456_789), (-86_400, 0), (-60_000_000_000, 0), (250_000_000_000, 5)),
    "decimal(10,2)": (Decimal("0.00"), Decimal("-99999999.99"), Decimal("12.50")),
    "decimal(20,4)": (Decimal("0.0000"), Decimal("9999999999999999.9999"), Decimal("-0.0001")),
    "decimal(38,10)": (Decimal("1E-10"), Decimal("-1234567890123456789012345678.0123456789")),
    "array<int>": ([], [1], [None, 2, None], list(range(40))),
    "map<string,bigint>": ({}, {"a": 1}, {"a": None, "b": 2**63 - 1}),
    "struct<x:int,y:string>": ((1, "one"), (None, None), (0, "")),
}
WIDER = {
    "tinyint": ("smallint", "int", "bigint"),
    "smallint": ("int", "bigint"),
    "int": ("bigint",),
    "float": ("double",),
    "varchar(5)": ("varchar(20)", "string"),
    "decimal(10,2)": ("decimal(20,4)",),
}


def value(kind: str, n: int) -> Any:
    """The ``n``-th value of a type; every fifth is NULL."""
    if n % 5 == 4:
        return None
    known = VALUES[kind]
    return known[n % len(known)]


@dataclass(frozen=True, slots=True)
class Insert:
    """Rows for each file number, in so many statements; some of the first statement's are deleted again by a last one."""

    counts: tuple[int, ...]
    seed: int
    statements: int
    deleted_again: int
    end: str
    layout: Layout


@dataclass(frozen=True, slots=True)
class Delete:
    """Deletes rows, by their places among all that were ever written; ``misplaced`` ones into the other file number."""

    picks: tuple[int, ...]
    misplaced: bool
    update: bool
    end: str
    layout: Layout


@dataclass(frozen=True, slots=True)
class Stream:
    """A streaming delta of several transactions with an end each; ``unflushed`` bytes follow the logical length."""

    ends: tuple[str, ...]
    rows: int
    seed: int
    unflushed: int
    layout: Layout


@dataclass(frozen=True, slots=True)
class Overwrite:
    """A new base: of rows, or none at all (TRUNCATE)."""

    count: int
    seed: int
    truncate: bool
    end: str
    layout: Layout


@dataclass(frozen=True, slots=True)
class Load:
    """Raw files in a delta, as LOAD DATA leaves them."""

    count: int
    seed: int
    layout: Layout


@dataclass(frozen=True, slots=True)
class AddColumn:
    kind: str


@dataclass(frozen=True, slots=True)
class Widen:
    place: int
    step: int


@dataclass(frozen=True, slots=True)
class Settle:
    """An open transaction ends."""

    which: int
    commits: bool


@dataclass(frozen=True, slots=True)
class OpenReader:
    """A transaction that goes on reading what it saw."""


@dataclass(frozen=True, slots=True)
class EndReader:
    which: int


@dataclass(frozen=True, slots=True)
class Compact:
    major: bool
    small_stripe_bytes: int
    full_verify: bool
    any_readers: bool
    split: bool = False  #: every stripe that is re-encoded is a task of its own
    max_bytes: int = 0  #: that one request may read; 0 is no bound
    chunk_bytes: int = 0  #: a request bounded in time merges so much at once; 0 is no such bound
    in_time: bool = True  #: the time suffices; else it is over after the first chunk
    max_deltas: int = 500


@dataclass(frozen=True, slots=True)
class Clean:
    pass


@dataclass(frozen=True, slots=True)
class Story:
    columns: tuple[str, ...]
    originals: tuple[tuple[int, int], ...]  #: file number and rows of each file from before the table was transactional
    original_layout: Layout
    happenings: tuple[Any, ...]


_counts = st.integers(0, 12)
_seeds = st.integers(0, 30)
_ends = st.sampled_from((COMMIT, COMMIT, COMMIT, ABORT, STAY_OPEN))
_layouts = st.builds(
    Layout,
    codec=st.sampled_from(("ZLIB", "NONE", "SNAPPY", "ZSTD", "LZ4")),
    stripe_rows=st.sampled_from((1000, 3, 5)),
    stride=st.sampled_from((10_000, 10_000, 2, 0)),
    lower_case=st.booleans(),
    attempt=st.booleans(),
    key_index=st.booleans(),
    dictionary=st.booleans(),
)
_inserts = st.builds(
    Insert,
    counts=st.tuples(_counts, _counts),
    seed=_seeds,
    statements=st.sampled_from((1, 1, 2, 3)),
    deleted_again=st.integers(0, 2),
    end=_ends,
    layout=_layouts,
)
_deletes = st.builds(
    Delete,
    picks=st.lists(st.integers(0, 60), min_size=1, max_size=6).map(tuple),
    misplaced=st.sampled_from((False, False, False, True)),
    update=st.booleans(),
    end=_ends,
    layout=_layouts,
)
_happenings = st.one_of(
    _inserts,
    _inserts,
    _deletes,
    _deletes,
    st.builds(
        Stream,
        ends=st.lists(_ends, min_size=2, max_size=4).map(tuple),
        rows=st.integers(1, 4),
        seed=_seeds,
        unflushed=st.sampled_from((0, 0, 40)),
        layout=_layouts,
    ),
    st.builds(
        Overwrite,
        count=_counts,
        seed=_seeds,
        truncate=st.booleans(),
        end=st.sampled_from((COMMIT, ABORT)),
        layout=_layouts,
    ),
    st.builds(Load, count=st.integers(1, 8), seed=_seeds, layout=_layouts),
    st.builds(AddColumn, kind=st.sampled_from(sorted(VALUES))),
    st.builds(Widen, place=st.integers(0, 3), step=st.integers(0, 2)),
    st.builds(Settle, which=st.integers(0, 5), commits=st.booleans()),
    st.builds(OpenReader),
    st.builds(EndReader, which=st.integers(0, 2)),
)
_compactions = st.builds(
    Compact,
    major=st.sampled_from((False, False, True)),
    small_stripe_bytes=st.sampled_from((0, 1 << 20)),
    full_verify=st.booleans(),
    any_readers=st.booleans(),
    split=st.booleans(),
    max_bytes=st.sampled_from((0, 0, 1500, 4000)),
    chunk_bytes=st.sampled_from((0, 0, 1500, 4000)),
    in_time=st.booleans(),
    max_deltas=st.sampled_from((500, 2, 3)),
)


@st.composite
def stories(draw: st.DrawFn) -> Story:
    """Some chapters of writing, each with a compaction at its end and mostly a cleaning.

    In half of the stories all files have one layout, so that their stripes may stand in one file.
    """
    one = draw(_layouts)
    uniform = draw(st.booleans())
    chapters: list[Any] = []
    for _ in range(draw(st.integers(1, 3))):
        for happening in draw(st.lists(_happenings, min_size=2, max_size=6)):
            alike = uniform and hasattr(happening, "layout")
            chapters.append(replace(happening, layout=one) if alike else happening)
        chapters.append(draw(_compactions))
        if draw(st.booleans()):
            chapters.append(Clean())
    return Story(
        columns=tuple(draw(st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=4))),
        originals=tuple(draw(st.lists(st.tuples(st.integers(0, 1), _counts), max_size=3))),
        original_layout=one,
        happenings=(*chapters, Clean()),
    )

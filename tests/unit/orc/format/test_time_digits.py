"""Timestamps that are proved to be whole microseconds, and those that are not, as two encoders store them."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pyarrow.orc as po
import pyorc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyorc.converters import ORCConverter

from compactor.orc.format.tail import read_tail
from compactor.orc.format.time_digits import _have_six_digits, are_microseconds
from compactor.orc.io.source import BytesSource


class _Raw(ORCConverter):  # type: ignore[misc]  # pyorc has no types
    @staticmethod
    def from_orc(*values: Any) -> Any:
        return values

    @staticmethod
    def to_orc(value: Any, timezone: Any) -> Any:
        return value


def _file(times: list[tuple[int, int] | None], kind: str = "timestamp", **options: Any) -> BytesSource:
    file = io.BytesIO()
    kinds = (pyorc.TypeKind.TIMESTAMP, pyorc.TypeKind.TIMESTAMP_INSTANT)
    schema = f"struct<t:{kind},n:int>"
    with pyorc.Writer(file, schema, converters=dict.fromkeys(kinds, _Raw), **options) as writer:
        for number, time in enumerate(times):
            writer.write((time, number))
    return BytesSource(file.getvalue())


def _proves(source: BytesSource) -> bool:
    return are_microseconds(source, read_tail(source), 0, [1])


#: Repeated, rising, packed, and mostly zero with few large ones (patches).
_MICROSECONDS = st.lists(
    st.one_of(
        st.builds(lambda micros, times: [micros] * times, st.integers(0, 999_999), st.integers(1, 600)),
        st.builds(lambda step: list(range(0, 100 * step, step)), st.integers(1, 9_000)),
        st.lists(st.integers(0, 999_999), min_size=1, max_size=600),
        st.builds(
            lambda start, micros: [0] * start + [micros] + [0] * 100, st.integers(0, 100), st.integers(0, 999_999)
        ),
    ),
    min_size=1,
    max_size=4,
).map(lambda parts: [micros * 1000 for part in parts for micros in part])


@given(_MICROSECONDS)
def test_whole_microseconds_are_proved(nanos: list[int]) -> None:
    assert _proves(_file([(number, value) for number, value in enumerate(nanos)]))


@given(_MICROSECONDS, st.integers(1, 999_999_999).filter(lambda nanos: nanos % 1000 > 0), st.data())
def test_one_finer_value_is_found(nanos: list[int], finer: int, data: st.DataObject) -> None:
    nanos[data.draw(st.integers(0, len(nanos) - 1))] = finer
    assert not _proves(_file([(number, value) for number, value in enumerate(nanos)]))


@pytest.mark.parametrize("digits", range(10))
def test_every_number_of_digits(digits: int) -> None:
    nanos = int("987654321"[:digits].ljust(9, "0")) if digits else 0
    for count in (1, 3, 11, 600):
        assert _proves(_file([(5, nanos)] * count)) is (digits <= 6)
        mixed: list[tuple[int, int] | None] = [(5, nanos if number % 3 else 123_456_000) for number in range(3 * count)]
        assert _proves(_file(mixed)) is (digits <= 6)


def test_arrow_writes_values_that_are_proved() -> None:
    sink = io.BytesIO()
    micros = pa.array([n * 1_234_567 for n in range(5000)], pa.timestamp("us"))
    po.write_table(pa.table({"t": micros.cast(pa.timestamp("ns"))}), sink, compression="zlib")
    assert _proves(BytesSource(sink.getvalue()))


def test_columns_of_nulls_and_of_instants() -> None:
    assert _proves(_file([None, (5, 1000), None]))
    assert not _proves(_file([None, (5, 1), None]))
    assert _proves(_file([(5, 1000)], "timestamp with local time zone"))
    assert not _proves(_file([(5, 1)], "timestamp with local time zone"))


@pytest.mark.parametrize("seconds", [-1, 9_300_000_000])
def test_times_before_1970_or_beyond_64_bits_of_nanoseconds_are_not_proved(seconds: int) -> None:
    assert not _proves(_file([(0, 0), (seconds, 0)]))


def test_a_damaged_stream_proves_nothing() -> None:
    assert not _have_six_digits(b"\x5e\x03\x00")  # four values of 24 bits in one byte
    assert not _have_six_digits(b"\xc0")
    assert _have_six_digits(b"")

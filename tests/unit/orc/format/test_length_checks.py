"""Length streams: those of encoders add up to what was written, and impossible lengths are refused."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.orc as po
import pyorc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compactor.base.errors import BadFile
from compactor.orc.format import length_checks
from compactor.orc.format.length_checks import check_lengths
from compactor.orc.format.plain_streams import plain_streams
from compactor.orc.format.stripe_footer import LENGTH, read_stripe_footer
from compactor.orc.format.tail import read_tail
from compactor.orc.io.source import BytesSource
from tests.torture.anatomy import put_together, take_apart
from tests.unit.orc.conftest import fixture_files

#: Long and short runs, rising and falling ones, and a few large numbers among small ones (patches).
_LENGTHS = st.lists(
    st.one_of(
        st.builds(lambda n, times: [n] * times, st.integers(0, 300), st.integers(1, 20)),
        st.builds(lambda n, step: list(range(n, n + 30 * step, step)), st.integers(0, 50), st.integers(1, 5)),
        st.builds(
            lambda n, step: list(range(n, max(0, n - 30 * step), -step)), st.integers(200, 300), st.integers(1, 5)
        ),
        st.lists(st.sampled_from([1, 2, 3, 3, 2, 1, 7, 5, 4, 30_000]), min_size=1, max_size=100),
        st.lists(st.integers(0, 2000), min_size=1, max_size=40),
    ),
    min_size=1,
    max_size=4,
).map(lambda parts: [n for part in parts for n in part])


def binaries(sizes: list[int], version: str) -> bytes:
    file = io.BytesIO()
    table = pa.table({"b": pa.array([b"x" * n for n in sizes], pa.binary())})
    po.write_table(table, file, file_version=version, compression="uncompressed")
    return file.getvalue()


def length_stream(data: bytes) -> bytes:
    (stripe,) = take_apart(data).stripes
    return next(
        content for stream, content in zip(stripe.footer.streams, stripe.streams, strict=True) if stream.kind == LENGTH
    )


@given(sizes=_LENGTHS)
def test_runs_of_both_versions_add_up(sizes: list[int]) -> None:
    first, second = (length_stream(binaries(sizes, version)) for version in ("0.11", "0.12"))
    wanted = (len(sizes), sum(sizes), max(sizes))
    assert length_checks._lengths_v1(first) == wanted
    assert length_checks._lengths_v2(second, exact=True) == wanted


@given(sizes=_LENGTHS)
def test_a_quick_sum_is_never_too_small(sizes: list[int]) -> None:
    """Otherwise correct files would be refused, or damaged ones accepted."""
    found = length_checks._lengths_v2(length_stream(binaries(sizes, "0.12")), exact=False)
    assert (found.number, found.total >= sum(sizes), found.longest >= max(sizes)) == (len(sizes), True, True)


@given(data=st.binary(max_size=60), first_version=st.booleans())
def test_garbage_is_lengths_or_refused(data: bytes, first_version: bool) -> None:
    try:
        length_checks._check(data, first_version, 10**6, None, "file f: its stream")
    except BadFile as error:
        assert "file f: its stream" in str(error)  # noqa: PT017 - either outcome is right


def judge(data: bytes) -> None:
    source = BytesSource(data, "victim")
    tail = read_tail(source)
    for stripe in range(len(tail.stripes)):
        footer = read_stripe_footer(source, tail, stripe)
        streams = plain_streams(source, tail, stripe, footer, range(len(tail.types)))
        check_lengths(streams, footer, tail, stripe)


def test_lengths_of_every_writer_pass() -> None:
    assert all(judge(path.read_bytes()) is None for path in fixture_files())


def forged(data: bytes, stream: bytes) -> bytes:
    """Replaces the length stream of the file."""
    parts = take_apart(data)
    (stripe,) = parts.stripes
    for place, item in enumerate(stripe.footer.streams):
        if item.kind == LENGTH:
            stripe.streams[place] = parts.packed(stream)
            item.length = len(stripe.streams[place])
    return put_together(parts)


@pytest.mark.parametrize(
    ("stream", "message"),
    [
        (b"\xc0\x02\x05\x13", "has -15 or 5"),  # a run that falls by 10 from 5
        (b"\x38" + b"\x7f" * 8, "a length is within"),  # three times 2**63 or so
        (b"\x1d" + b"\x7f\xff\xff\xff", "adds up to 17179869176, more than the possible 6"),
        (b"\x40", "is cut off"),
        (b"\xc0\x02" + b"\xff" * 12, "more than 64 bits"),
        (b"\xfe\x00\x01\x01" * 3 + b"\x40", "is cut off"),  # one value and steps of 64 bits, none backwards
    ],
)
def test_numbers_that_cannot_be_lengths(stream: bytes, message: str) -> None:
    """With negative lengths the decoder reads outside its memory; with huge ones it allocates all there is."""
    data = binaries([1, 2, 3], "0.12")
    with pytest.raises(BadFile, match=f"file victim, stripe 0: its length stream of column 1 .*{message}"):
        judge(forged(data, stream))


def test_a_dictionary_with_fewer_lengths_than_entries() -> None:
    file = io.BytesIO()
    with pyorc.Writer(file, "struct<s:string>", dict_key_size_threshold=1.0) as writer:
        writer.writerows([(f"v{n % 5}",) for n in range(100)])
    judge(file.getvalue())
    with pytest.raises(BadFile, match="3 lengths for 5 dictionary entries"):
        judge(forged(file.getvalue(), b"\x00\x01"))


def test_lists_are_limited_by_elements_not_bytes() -> None:
    file = io.BytesIO()
    with pyorc.Writer(file, "struct<s:array<int>>") as writer:
        writer.writerows([([1] * 1000,)] * 100)
    judge(file.getvalue())
    five = b"\x1a\x7f\xff\xff\xff"  # five lists of 2**31 - 1 elements
    with pytest.raises(BadFile, match="adds up to 10737418235, more"):
        judge(forged(file.getvalue(), five))

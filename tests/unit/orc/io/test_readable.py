from __future__ import annotations

import io

from hypothesis import given
from hypothesis import strategies as st

from compactor.orc.io.readable import SourceFile
from compactor.orc.io.source import BytesSource

CONTENT = bytes(range(200))
STEPS = st.one_of(
    st.tuples(st.just("read"), st.integers(-1, 150)),
    st.tuples(st.just("from the start"), st.integers(0, 250)),
    st.tuples(st.just("on"), st.integers(0, 250)),
    st.tuples(st.just("from the end"), st.integers(-200, 10)),
)
WHENCE = {"from the start": io.SEEK_SET, "on": io.SEEK_CUR, "from the end": io.SEEK_END}


@given(st.lists(STEPS, max_size=10), st.integers(0, len(CONTENT)))
def test_a_remote_source_reads_and_closes_like_a_file(steps: list[tuple[str, int]], size: int) -> None:
    file, plain = SourceFile(BytesSource(CONTENT), size), io.BytesIO(CONTENT[:size])
    assert file.readable()
    assert file.seekable()
    for what, number in steps:
        if what == "read":
            assert file.read(number) == plain.read(number)
        elif what == "from the end" and number + size < 0:
            assert file.seek(number, io.SEEK_END) == plain.seek(0)
        else:
            assert file.seek(number, WHENCE[what]) == plain.seek(number, WHENCE[what])
        assert file.tell() == plain.tell()

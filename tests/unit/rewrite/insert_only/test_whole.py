"""Files copied side by side, unchanged."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compactor.base.errors import BadFile
from compactor.orc.io.source import BytesSource
from compactor.rewrite.insert_only import whole as insert_only_whole


@given(files=st.lists(st.binary(max_size=20), max_size=5))
def test_every_byte_stays_in_a_file_of_its_own(files: list[bytes], tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("whole") / "rows"
    made = insert_only_whole.write([BytesSource(data, f"/t/{n:06d}_0") for n, data in enumerate(files)], str(path))
    assert [Path(file.path).read_bytes() for file in made] == [data for data in files if data]
    assert [file.length for file in made] == [len(data) for data in files if data]


def test_the_ending_by_which_readers_choose_a_codec_stays(tmp_path: Path) -> None:
    names = ["000000_0.gz", "000000_0", "part-1.c000.snappy"]
    made = insert_only_whole.write([BytesSource(b"x", f"/a.b/{name}") for name in names], str(tmp_path / "rows"))
    assert [file.ending for file in made] == [".gz", "", ".snappy"]


class _Cut(BytesSource):
    """A file that is shorter than when it was listed."""

    def read(self, offset: int, length: int) -> bytes:
        return super().read(offset, length + 1)


def test_a_file_that_is_truncated_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match="f"):
        insert_only_whole.write([_Cut(b"xyz", "f")], str(tmp_path / "rows"))
    assert list(tmp_path.iterdir()) == []

"""One unit of an insert-only table."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import orc

from compactor.acid.write_ids import ValidWriteIdList
from compactor.base.errors import BadFile
from compactor.base.ids import WriteId
from compactor.orc.io.source import BytesSource
from compactor.rewrite.insert_only.rewrite_insert_only import copy_whole, preview_figures, rewrite_insert_only
from compactor.rewrite.plan.file_format import FileFormat
from compactor.rewrite.plan.unit import Shape, Unit
from compactor.rows.inputs import Input
from compactor.rows.remote_source import LOCAL
from compactor.settings.output_class import UNKNOWN_TO_ORC_1_5, OutputClass
from tests.support.folders import staging_of
from tests.support.insert_only import INPUTS, make_rows, read_file, write_file


def unit(folder: Path, file_format: FileFormat, names: list[str], number: int = 3) -> Unit:
    return Unit(
        location=str(folder),
        staging=staging_of(folder, ".compactor_v1"),
        number=number,
        shape=Shape.MAJOR,
        inserts=tuple(Input(path=name, length=(folder / name).stat().st_size, raw=True) for name in names),
        deletes=(),
        write_ids=ValidWriteIdList(table="default.t", high_watermark=WriteId(9)),
        first_write_id=WriteId(1),
        row_type="struct<a:int,b:string>",
        file_format=file_format,
    )


@pytest.mark.parametrize("file_format", list(INPUTS), ids=lambda one: one.name)
def test_rows_of_all_files_in_their_order(tmp_path: Path, file_format: FileFormat) -> None:
    (tmp_path / "empty").touch()
    names = ["empty"]
    for start in range(0, 30, 10):
        names.append(f"in{start}")
        write_file(tmp_path / names[-1], file_format, make_rows(range(start, start + 10)))
    given = unit(tmp_path, file_format, names)
    result = rewrite_insert_only(given, LOCAL, str(tmp_path / "rows"))
    (output,) = result.outputs
    assert output.file_name == "000003_0"
    assert read_file(Path(output.path), file_format) == [
        row for name in names for row in read_file(tmp_path / name, file_format)
    ]
    figures, preview = result.figures, preview_figures(given, LOCAL)
    assert (figures.rows_in, figures.rows_out, output.rows) == (30, 30, 30)
    assert (figures.files_in, figures.files_out, figures.bytes_out) == (4, 1, output.length)
    assert (preview.rows_in, preview.stripes_copied, preview.stripes_encoded) == (
        30,
        figures.stripes_copied,
        figures.stripes_encoded,
    )


def test_files_that_may_not_share_one_are_numbered_as_copies(tmp_path: Path) -> None:
    write_file(tmp_path / "in0", FileFormat.ORC, make_rows(range(5)))
    write_file(tmp_path / "in1", FileFormat.ORC, make_rows(range(5)).rename_columns(["a", "c"]))
    result = rewrite_insert_only(unit(tmp_path, FileFormat.ORC, ["in0", "in1"]), LOCAL, str(tmp_path / "rows"))
    assert [output.file_name for output in result.outputs] == ["000003_0", "000003_0_copy_1"]
    assert [output.rows for output in result.outputs] == [5, 5]


def test_what_orc_1_5_cannot_read_joins_what_it_can(tmp_path: Path) -> None:
    """PROTOCOL 2.8: ZSTD becomes ZLIB where Hive 3.1 reads; elsewhere it is copied."""
    for start, codec in ((0, "zstd"), (10, "zlib"), (20, "zstd")):
        orc.write_table(make_rows(range(start, start + 10)), tmp_path / f"in{start}", compression=codec)
    kept = replace(unit(tmp_path, FileFormat.ORC, ["in0", "in10", "in20"]), small_stripe_bytes=0)
    assert len(rewrite_insert_only(kept, LOCAL, str(tmp_path / "kept")).outputs) == 2
    for files in (["in0", "in10", "in20"], ["in0"]):
        given = replace(kept, inserts=unit(tmp_path, FileFormat.ORC, files).inserts, full_verify=True)
        given = replace(given, output_class=OutputClass(avoids=UNKNOWN_TO_ORC_1_5))
        result = rewrite_insert_only(given, LOCAL, str(tmp_path / f"rows{len(files)}"))
        (output,) = result.outputs
        assert orc.ORCFile(output.path).compression == "ZLIB"
        assert orc.read_table(output.path) == make_rows(range(10 * len(files)))
        figures, preview = result.figures, preview_figures(given, LOCAL)
        assert (figures.stripes_copied, figures.stripes_encoded) == (preview.stripes_copied, preview.stripes_encoded)
        assert figures.stripes_copied == files.count("in10")


def test_no_rows_of_what_orc_1_5_cannot_read_leave_a_file_that_it_can(tmp_path: Path) -> None:
    """PROTOCOL 2.8: readers open a file without rows, too."""
    orc.write_table(make_rows([]), tmp_path / "none", compression="zstd")
    kept = unit(tmp_path, FileFormat.ORC, ["none"])
    for avoids, codec in ((frozenset[str](), "ZSTD"), (UNKNOWN_TO_ORC_1_5, "ZLIB")):
        given = replace(kept, output_class=OutputClass(avoids=avoids))
        (output,) = rewrite_insert_only(given, LOCAL, str(tmp_path / codec)).outputs
        assert (orc.ORCFile(output.path).compression, orc.read_table(output.path)) == (codec, make_rows([]))
        assert (output.rows, output.length) == (0, Path(output.path).stat().st_size)


@pytest.mark.parametrize("file_format", list(INPUTS), ids=lambda one: one.name)
def test_no_rows_leave_one_file(tmp_path: Path, file_format: FileFormat) -> None:
    """PROTOCOL 1.4: no directory becomes empty of files."""
    (tmp_path / "empty").touch()
    write_file(tmp_path / "none", file_format, make_rows([]))
    for names in (["empty"], ["empty", "none"]):
        result = rewrite_insert_only(unit(tmp_path, file_format, names), LOCAL, str(tmp_path / f"rows{len(names)}"))
        (output,) = result.outputs
        assert Path(output.path).read_bytes() == (tmp_path / names[-1]).read_bytes()
        assert (output.rows, result.figures.rows_in, output.length) == (0, 0, (tmp_path / names[-1]).stat().st_size)


@pytest.mark.parametrize("file_format", [FileFormat.ORC, FileFormat.PARQUET], ids=lambda one: one.name)
def test_a_file_of_another_format_is_named(tmp_path: Path, file_format: FileFormat) -> None:
    write_file(tmp_path / "lines", FileFormat.TEXT, make_rows(range(50)))
    with pytest.raises(BadFile, match="lines"):
        rewrite_insert_only(unit(tmp_path, file_format, ["lines"]), LOCAL, str(tmp_path / "rows"))


@given(files=st.lists(st.binary(max_size=20), max_size=5))
def test_every_byte_stays_in_a_file_of_its_own(files: list[bytes], tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("whole") / "rows"
    made = copy_whole([BytesSource(data, f"/t/{n:06d}_0") for n, data in enumerate(files)], str(path))
    assert [Path(file.path).read_bytes() for file in made] == [data for data in files if data]
    assert [file.length for file in made] == [len(data) for data in files if data]


def test_the_ending_by_which_readers_choose_a_codec_stays(tmp_path: Path) -> None:
    names = ["000000_0.gz", "000000_0", "part-1.c000.snappy"]
    made = copy_whole([BytesSource(b"x", f"/a.b/{name}") for name in names], str(tmp_path / "rows"))
    assert [file.ending for file in made] == [".gz", "", ".snappy"]


class _Cut(BytesSource):
    """A file that is shorter than when it was listed."""

    def read(self, offset: int, length: int) -> bytes:
        return super().read(offset, length + 1)


def test_a_file_that_is_truncated_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match="f"):
        copy_whole([_Cut(b"xyz", "f")], str(tmp_path / "rows"))
    assert list(tmp_path.iterdir()) == []

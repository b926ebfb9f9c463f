from __future__ import annotations

from dataclasses import replace

import pytest

from compactor.base.errors import NotLossless
from compactor.cli.orcfiledump.structure import StructureOptions, software_name, structure, version_name
from compactor.orc.format.hive_types import parse_hive_type
from compactor.orc.format.tail import empty_tail, read_tail
from compactor.orc.io.source import BytesSource
from tests.support.orcfiledump import GOLDEN

SOURCE = BytesSource((GOLDEN / "samples" / "unions.orc").read_bytes())
TAIL = read_tail(SOURCE)


def test_the_output_begins_with_the_file_and_its_writer() -> None:
    found = list(structure(SOURCE, TAIL, "a name", StructureOptions()))
    assert found[:4] == [
        "Structure for a name",
        "File Version: 0.12 with ORC_14 by ORC Java 2.1.2",
        "Rows: 4",
        "Compression: ZLIB",
    ]
    assert "  Stripe: offset: 3" in "\n".join(found)


def test_what_is_not_set_has_the_name_of_its_default() -> None:
    old = replace(TAIL, file_version=(), calendar=0, stripe_statistics=None, user_metadata={"k": b"\xff"})
    found = list(structure(SOURCE, old, "f", StructureOptions()))
    assert "File Version: 0.11 with ORC_14 by ORC Java 2.1.2" in found
    assert "Calendar: Julian/Gregorian" in found
    assert found[found.index("\nStripe Statistics:") + 1] == "\nFile Statistics:"
    assert found[-2:] == ["\nUser Metadata:", "  k=\ufffd"]


def test_columns_are_named_with_those_around_them() -> None:
    found = list(structure(SOURCE, TAIL, "f", StructureOptions(types=True)))
    first = found.index("Columns type:") + 1
    assert [line.split(" type: ")[0] for line in found[first : first + 5]] == [
        "  Column 0: field: 0",
        "  Column 1: field: u",
        "  Column 2: field: u.0",
        "  Column 3: field: u.1",
        "  Column 4: field: t",
    ]


def test_encrypted_files_are_refused() -> None:
    with pytest.raises(NotLossless, match="encrypted"):
        list(structure(SOURCE, replace(TAIL, encrypted=True), "f", StructureOptions()))


WRITER_TAIL = empty_tail(parse_hive_type("struct<>"))


@pytest.mark.parametrize(
    ("writer", "version", "name"),
    [
        (0, 0, "ORIGINAL"),
        (0, 7, "ORC_517"),
        (0, 9, "ORC_14"),
        (0, 10, "FUTURE"),
        (1, 6, "ORC_CPP_ORIGINAL"),
        (4, 6, "TRINO_ORIGINAL"),
        (4, 7, "FUTURE"),
        (9, 6, "FUTURE"),
    ],
)
def test_versions_have_names(writer: int, version: int, name: str) -> None:
    assert version_name(replace(WRITER_TAIL, writer=writer, writer_version=version)) == name


@pytest.mark.parametrize(
    ("writer", "software", "name"),
    [(0, "2.1.2", "ORC Java 2.1.2"), (1, "1.9", "ORC C++ 1.9"), (4, "", "Trino "), (17, "x", "Unknown(17) x")],
)
def test_writers_have_names(writer: int, software: str, name: str) -> None:
    assert software_name(replace(WRITER_TAIL, writer=writer, software=software)) == name

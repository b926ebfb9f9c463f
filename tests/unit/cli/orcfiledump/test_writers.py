from __future__ import annotations

from dataclasses import replace

import pytest

from compactor.cli.orcfiledump.writers import software_name, version_name
from compactor.orc.format.hive_types import parse_hive_type
from compactor.orc.format.tail import empty_tail

TAIL = empty_tail(parse_hive_type("struct<>"))


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
    assert version_name(replace(TAIL, writer=writer, writer_version=version)) == name


@pytest.mark.parametrize(
    ("writer", "software", "name"),
    [(0, "2.1.2", "ORC Java 2.1.2"), (1, "1.9", "ORC C++ 1.9"), (4, "", "Trino "), (17, "x", "Unknown(17) x")],
)
def test_writers_have_names(writer: int, software: str, name: str) -> None:
    assert software_name(replace(TAIL, writer=writer, software=software)) == name

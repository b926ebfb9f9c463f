"""Messages described in code must equal those of the specification, bit by bit."""

from __future__ import annotations

from compactor.orc.format import messages


def test_a_postscript_is_what_the_specification_says_on_the_wire() -> None:
    script = messages.PostScript(footer_length=5, compression=1, version=[0, 12], magic=b"ORC")
    # field 1 varint, field 2 varint, field 4 packed, field 8000 length-delimited
    assert script.SerializeToString() == bytes([0x08, 5, 0x10, 1, 0x22, 2, 0, 12, 0x82, 0xF4, 0x03, 3]) + b"ORC"


def test_signed_numbers_are_zigzag() -> None:
    assert messages.ColumnStatistics.FromString(bytes([0x12, 2, 0x08, 1])).int_statistics.minimum == -1


def test_unknown_fields_survive() -> None:
    unknown = bytes([0xFA, 0x3F, 2]) + b"xy"
    assert messages.Footer.FromString(unknown).SerializeToString() == unknown


def test_a_text_that_is_no_utf8_is_kept() -> None:
    column = messages.ColumnStatistics()
    column.string_statistics.minimum = b"\xff\xfe"
    assert messages.ColumnStatistics.FromString(column.SerializeToString()).string_statistics.minimum == b"\xff\xfe"

"""Names of the programs that write ORC files, and of the versions of their format."""

from __future__ import annotations

from compactor.orc.format.tail import Tail

FUTURE = "FUTURE"  #: a version that ORC 2.1.2 does not know
HIVE_12055, ORC_135 = 3, 6  #: versions of Java's writer from which on bloom filters of texts, and of times, are right
_JAVA = (
    "ORIGINAL",
    "HIVE_8732",
    "HIVE_4243",
    "HIVE_12055",
    "HIVE_13083",
    "ORC_101",
    "ORC_135",
    "ORC_517",
    "ORC_203",
    "ORC_14",
)  #: by their numbers
NEWEST_OF_JAVA = len(_JAVA) - 1
_WRITERS = ("ORC Java", "ORC C++", "Presto", "Scritchley Go", "Trino", "CUDF")  #: by their numbers
#: The only version of each other writer, which has the number 6.
_OTHERS = ("", "ORC_CPP_ORIGINAL", "PRESTO_ORIGINAL", "SCRITCHLEY_GO_ORIGINAL", "TRINO_ORIGINAL", "CUDF_ORIGINAL")
_FIRST_OF_OTHERS = 6


def version_name(tail: Tail) -> str:
    """Returns the version that the file names in its postscript."""
    if tail.writer == 0:
        return _JAVA[tail.writer_version] if tail.writer_version < len(_JAVA) else FUTURE
    if tail.writer < len(_OTHERS) and tail.writer_version == _FIRST_OF_OTHERS:
        return _OTHERS[tail.writer]
    return FUTURE


def software_name(tail: Tail) -> str:
    """Returns the program that wrote the file, and its version, which most writers leave out."""
    name = _WRITERS[tail.writer] if tail.writer < len(_WRITERS) else f"Unknown({tail.writer})"
    return f"{name} {tail.software}"

"""A random tree of hostile entries in one table: everything outside stays as it is, bit for bit, and the neighbour is
compacted and cleaned (PROTOCOL 10, 11.13)."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from compactor.requests.request import request_compaction
from compactor.site.site import Site
from tests.support.hostile import NOBODY, due_table, every_role, everything_in, is_compacted_and_cleaned
from tests.support.sizes import sized

#: Names of tables, names of ours, names that only look so, and names of nobody.
NAMES = (
    "delta_0000001_0000001_0000",
    "delta_0000002_0000002_0000",
    "delete_delta_0000002_0000002_0000",
    "delta_0000007_0000003",
    f"delta_{'9' * 25}_{'9' * 25}",
    "delta_x",
    "base_0000002",
    "base_0000099",
    "base_-9223372036854775808",
    "base_0000003_v0000004",
    f"base_1_v{'9' * 30}",
    ".compactor_v3",
    ".compactor_v4_00ff",
    f".compactor_v{'9' * 30}",
    ".compactor_obsolete_1_delta_0000001_0000001_0000",
    f".compactor_obsolete_{'9' * 30}_x",
    ".compactor_quarantine_1",
    ".compactor_quarantine_1_erased",
    ".compactor_in_doubt_1_base_0000001",
    "-tmp.base_0000001",
    "bucket_00000",
    f"bucket_{'9' * 30}",
    "bucket_00000_flush_length",
    "000000_0",
    "_orc_acid_version",
    "_metadata_acid",
    "manifest.json",
    "out",
    "attempts",
    "k=1",
    "%2e%2e",
    "a\nb\x1b[2J",
    "ä" * 60,
    b"\xff\xfe",
)
KINDS = (
    "directory",
    "file",
    "link out",
    "link to a secret",
    "link to the neighbour",
    "link up",
    "loop",
    "pipe",
    "socket",
)
CONTENTS = (b"", b"[" * 50_000, b"{}", b"ORC", b"\x00" * 8, b'{"dataFormat": "compacted"}', b"\xff" * 300)


@dataclass(frozen=True)
class Planted:
    parent: int  #: which of the directories so far, the table's own being the first
    name: str | bytes
    kind: str
    content: bytes


PLANTED = st.builds(
    Planted,
    parent=st.integers(0, 9),
    name=st.sampled_from(NAMES),
    kind=st.sampled_from(KINDS),
    content=st.sampled_from(CONTENTS),
)


def plant(table: Path, outside: Path, neighbour: Path, planted: Sequence[Planted]) -> None:
    """Puts everything into the table's directory; what has a name already is left as it is."""
    directories = [os.fsencode(table), *(os.fsencode(path) for path in sorted(table.iterdir()) if path.is_dir())]
    for one in planted:
        path = directories[one.parent % len(directories)] + b"/" + os.fsencode(one.name)
        if os.path.lexists(path):
            continue
        match one.kind:
            case "directory":
                os.mkdir(path)
                directories.append(path)
            case "file":
                Path(os.fsdecode(path)).write_bytes(one.content)
            case "link out":
                os.symlink(os.fsencode(outside), path)
            case "link to a secret":
                os.symlink(os.fsencode(outside / "secret"), path)
            case "link to the neighbour":
                os.symlink(os.fsencode(neighbour), path)
            case "link up":
                os.symlink(b"..", path)
            case "loop":
                os.symlink(os.path.basename(path), path)
            case "pipe":
                os.mkfifo(path)
            case "socket":
                os.mknod(path, stat.S_IFSOCK | 0o600)
        if os.geteuid() == 0:
            os.lchown(path, NOBODY, NOBODY)


_NUMBERS = iter(range(1_000_000))


@settings(max_examples=sized(short=4, whole=40), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(trees=st.lists(st.lists(PLANTED, min_size=1, max_size=12), min_size=5, max_size=5))
def test_nothing_outside_changes_and_the_neighbour_is_compacted(
    site: Site, warehouse: Path, outside: Path, trees: list[list[Planted]]
) -> None:
    """Several hostile tables at once, since most of them are refused for the first thing that is found."""
    number = next(_NUMBERS)
    neighbour = due_table(site, warehouse, f"neighbour{number}")
    tables = [due_table(site, warehouse, f"hostile{number}_{index}", writes=2) for index in range(len(trees))]
    before = everything_in(outside)
    for table, planted in zip(tables, trees, strict=True):
        plant(Path(table.location), outside, Path(neighbour.location), planted)
        request_compaction(site, table=str(table), type="major")
    for _ in range(2):
        every_role(site)
    assert everything_in(outside) == before
    assert is_compacted_and_cleaned(site, neighbour)
    for table in tables:
        site.metastore.embedded_catalog.drop_table(table)

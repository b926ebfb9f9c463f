"""The state of every directory that a real Hive or Trino wrote, against tests/golden/fixture_states.txt.

``python tests/unit/acid/test_fixture_states.py`` prints that file again; read the difference before keeping it.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from compactor.acid.directory import AcidDirectory, acid_directory
from compactor.acid.listing import FileStatus, Listing
from compactor.acid.names import METADATA_FILE, parse_directory, parse_file
from compactor.acid.write_ids import ValidTxnList, ValidWriteIdList
from compactor.base.ids import TxnId, WriteId

TESTS = Path(__file__).parents[2]
FIXTURES = TESTS / "fixtures"
GOLDEN = TESTS / "golden" / "fixture_states.txt"
STEPS = sorted(path.parent for path in FIXTURES.glob("*/*/*/txn_tables.txt"))
WITH_ROW_IDS = [step for step in STEPS if (step / "expected_rowid.tsv").exists()]


def _tables(step: Path) -> dict[str, list[dict[str, str]]]:
    """Returns each dumped table as rows by column name."""
    tables: dict[str, list[dict[str, str]]] = {}
    columns: list[str] = []
    rows: list[dict[str, str]] = []
    for line in (step / "txn_tables.txt").read_text().splitlines():
        if line.startswith("["):
            name, _, head = line[1:].partition("] ")
            columns, rows = head.split(","), []
            tables[name] = rows
        elif line.startswith("   "):
            rows.append(dict(zip(columns, line[3:].split(" | "), strict=True)))
    return tables


def _lists(step: Path, table: str) -> tuple[ValidWriteIdList, ValidTxnList]:
    tables = _tables(step)
    state = {int(row["TXN_ID"]): row["TXN_STATE"] for row in tables["TXNS"]}
    aborted = frozenset(txn for txn, code in state.items() if code == "a")
    txns = ValidTxnList(high_watermark=TxnId(2**62), aborted=frozenset(map(TxnId, aborted)))
    if "NEXT_WRITE_ID" not in tables:  # Hive 2: the transaction's id is the write ID
        newest = int(tables["NEXT_TXN_ID"][0]["NTXN_NEXT"]) - 1
        ids = frozenset(map(WriteId, aborted))
        return ValidWriteIdList(table=table, high_watermark=WriteId(newest), aborted=ids), txns
    following = [int(r["NWI_NEXT"]) for r in tables["NEXT_WRITE_ID"] if r["NWI_TABLE"] == table]
    mapped = [r for r in tables.get("TXN_TO_WRITE_ID", ()) if r["T2W_TABLE"] == table]
    ids = frozenset(WriteId(int(r["T2W_WRITEID"])) for r in mapped if int(r["T2W_TXNID"]) in aborted)
    newest = following[0] - 1 if following else 0
    return ValidWriteIdList(table=table, high_watermark=WriteId(newest), aborted=ids), txns


def _table_directory(step: Path) -> Path | None:
    return next((path for path in sorted(step.iterdir()) if path.is_dir()), None)


def _is_acid(path: Path) -> bool:
    return path.is_dir() and parse_directory(path.name) is not None


def _leaves(table: Path) -> Iterator[Path]:
    """Yields the table's directory, or those of its partitions: the ones with bases, deltas or original files."""
    children = sorted(table.iterdir())
    if any(_is_acid(c) or (c.is_file() and parse_file(c.name)) for c in children) or not children:
        yield table
        return
    for child in children:
        if child.is_dir() and "=" in child.name:
            yield from _leaves(child)


def _listing(directory: Path) -> Listing:
    files = [path for path in sorted(directory.rglob("*")) if path.is_file()]
    return Listing(
        files=tuple(FileStatus(path=str(f.relative_to(directory)), length=f.stat().st_size) for f in files),
        directories=tuple(path.name for path in directory.iterdir() if path.is_dir()),
        data_formats={f.parent.name: json.loads(f.read_text())["dataFormat"] for f in files if f.name == METADATA_FILE},
    )


def _state(step: Path, leaf: Path) -> AcidDirectory:
    table = _table_directory(step)
    assert table is not None
    return acid_directory(_listing(leaf), *_lists(step, table.name))


def _leaves_of(step: Path) -> list[Path]:
    table = _table_directory(step)
    return list(_leaves(table)) if table is not None else []


def _text(step: Path) -> str:
    lines = []
    for leaf in _leaves_of(step):
        state = _state(step, leaf)
        lines.append(str(leaf.relative_to(FIXTURES)))
        parts = {
            "base": [state.base.directory] if state.base else [],
            "deltas": [d.directory for d in state.deltas],
            "originals": [f.path for f in state.originals],
            "obsolete": list(state.obsolete),
            "aborted": list(state.aborted),
            "left out": [acid.name for acid in state.left_out],
            "unseen": list(state.unseen),
            "unparsable": list(state.unparsable),
        }
        lines += [f"  {key}: {', '.join(names)}" for key, names in parts.items() if names]
    return "\n".join(lines)


def _golden() -> dict[str, str]:
    blocks: dict[str, list[str]] = {}
    step = ""
    for line in GOLDEN.read_text().splitlines():
        if line and not line.startswith((" ", "#")):
            step = "/".join(line.split("/")[:3])
        if line and not line.startswith("#"):
            blocks.setdefault(step, []).append(line)
    return {name: "\n".join(block) for name, block in blocks.items()}


def test_state_is_the_golden_one() -> None:
    golden = _golden()
    for step in STEPS:
        assert _text(step) == golden.get(str(step.relative_to(FIXTURES)), ""), step


def test_directories_read_hold_every_row_that_hive_shows() -> None:
    """Each write ID of a row in SELECT ROW__ID is in a base, a delta or (0) an original that is read."""
    for step in WITH_ROW_IDS:
        text = (step / "expected_rowid.tsv").read_text()
        shown = {int(number) for number in re.findall(r'"(?:writeid|transactionid)":(\d+)', text)}
        held: set[int] = set()
        for leaf in _leaves_of(step):
            state = _state(step, leaf)
            held |= {0} if state.originals else set()
            held |= set(range(state.base.base.write_id + 1)) if state.base else set()
            for delta in state.insert_deltas:
                held |= set(range(delta.delta.min_write_id, delta.delta.max_write_id + 1))
        assert shown <= held, step


def test_there_are_fixtures() -> None:
    assert len(STEPS) > 100
    assert len(WITH_ROW_IDS) > 100
    assert set(_golden()) <= {str(step.relative_to(FIXTURES)) for step in STEPS}


if __name__ == "__main__":
    head = "# What a reader sees in each fixture; made by tests/unit/acid/test_fixture_states.py.\n"
    sys.stdout.write(head + "\n\n".join(filter(None, map(_text, STEPS))) + "\n")

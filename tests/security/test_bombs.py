"""Small files that describe far more than they hold: each ends the request of its own table by name, and takes little."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from compactor.cli.program import program
from compactor.metastore.catalog.values import Table
from compactor.requests.request import request_compaction
from compactor.rewrite.plan.file_format import FileFormat
from compactor.site.site import Site
from tests.support import bombs, insert_only
from tests.support.bombed import Report, passed_over
from tests.support.hostile import is_compacted_and_cleaned
from tests.support.tables import delete

MUCH = 400 << 20  #: bytes of memory that a pass may take for a file that it refuses
FILE = "delta_0000001_0000001_0000/bucket_00000"
Made = Callable[[], bytes]


def failed(found: Report, file: Path, why: str) -> bool:
    """Returns true if the hostile table's request failed because of this file, for this reason."""
    result, message = found.outcomes["hostile"]
    assert (result, str(file) in message, why in message) == ("FAILED", True, True), message
    return found.peak < MUCH


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (bombs.footer_that_inflates, "compactor.file.footer.bytes"),
        (bombs.metadata_that_inflates, "compactor.file.footer.bytes"),
        (bombs.many_stripes, "compactor.file.stripes"),
        (bombs.many_statistics, "compactor.file.footer.bytes"),
        (bombs.many_file_statistics, "compactor.file.columns"),
        (bombs.many_columns, "compactor.file.columns"),
        (bombs.deep_types, "compactor.file.depth"),
        (bombs.types_in_a_circle, "are not one tree of columns"),
        (bombs.long_stripe_footer, "compactor.file.footer.bytes"),
        (bombs.long_lengths, "the length stream of column 8 has"),
        (bombs.empty_chunks, "more than 1048576 compressed chunks"),
        (bombs.many_entries, "the dictionary of column 8 has 4294967295 entries"),
        (bombs.many_rows, "claims 8589934592 rows"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_an_orc_file_takes_little_and_fails_its_own_table(
    site: Site, hostile: Table, neighbour: Table, metastore_url: str, tmp_path: Path, made: Made, why: str
) -> None:
    file = Path(hostile.location, FILE)
    delete(site, hostile, [0])  # else a stripe might be copied without being looked into
    file.write_bytes(made())
    request_compaction(site, table="default.hostile", type="major")
    found = passed_over(metastore_url, tmp_path)
    assert failed(found, file, why)
    assert is_compacted_and_cleaned(site, neighbour)


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (bombs.parquet_of_nothing, "compactor.file.footer.bytes"),
        (bombs.parquet_deep, "compactor.file.depth"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_parquet_file_takes_little_and_fails_its_own_table(
    site: Site, neighbour: Table, warehouse: Path, metastore_url: str, tmp_path: Path, made: Made, why: str
) -> None:
    table = insert_only.make_insert_only(site, warehouse, FileFormat.PARQUET, "hostile")
    for start in (0, 10, 20):
        directory = insert_only.insert(site, table, FileFormat.PARQUET, range(start, start + 10))
    file = directory / "000000_0"
    file.write_bytes(made())
    request_compaction(site, table="default.hostile", type="major")
    found = passed_over(metastore_url, tmp_path)
    assert failed(found, file, why)
    assert is_compacted_and_cleaned(site, neighbour)


def test_a_site_may_allow_more_or_less(
    site: Site, hostile: Table, neighbour: Table, metastore_url: str, tmp_path: Path
) -> None:
    """Limits travel to wherever files are read."""
    file = Path(hostile.location, FILE)
    request_compaction(site, table="default.hostile", type="major")
    found = passed_over(metastore_url, tmp_path, **{"compactor.file.columns": "8"})
    assert {result for result, _ in found.outcomes.values()} == {"FAILED"}
    assert f"file {file}: has 9 columns or more, nested ones included, at most 8" in found.outcomes["hostile"][1]


def test_what_slips_through_ends_its_own_process(
    site: Site, hostile: Table, neighbour: Table, metastore_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A text of a gigabyte is within all limits."""
    delete(site, hostile, [0])
    Path(hostile.location, FILE).write_bytes(bombs.long_dictionary(rows=2, length=10**9))
    for name in ("hostile", "neighbour"):
        request_compaction(site, table=f"default.{name}", type="major")
    monkeypatch.setenv("COMPACTOR_METASTORE_URL", metastore_url)
    limit = ["--set", "compactor.unit.memory=1GB", "--set", "hive.txn.opentxn.timeout=1ms"]
    said = CliRunner().invoke(program, [*limit, "run", "worker", "--once", "--in-process"], catch_exceptions=False)
    assert said.exit_code == 1
    ended = {entry.entity.table: entry for entry in site.metastore.entries.history()}
    assert "compactor.unit.memory)" in (ended["hostile"].error or "")
    assert hostile.location in (ended["hostile"].error or "")
    assert any(name.startswith("base_") for name in os.listdir(neighbour.location))

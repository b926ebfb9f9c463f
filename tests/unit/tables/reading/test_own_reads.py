"""Scans tell of themselves where the site asks for it, and never fail because of it."""

from __future__ import annotations

import logging
from pathlib import Path

import pyarrow as pa
import pytest

from compactor.site.site import Site, own_state
from compactor.state.read_counts import Read, Reads
from compactor.tables import Store
from tests.support.tables import make_table, with_settings


@pytest.fixture
def site(deployment: Site, warehouse: Path) -> Site:
    """A table of three rows in two files."""
    make_table(deployment, warehouse)
    table = Store(deployment).load_table("default.t")
    for rows in ([1, 2], [3]):
        table.append(pa.table({"a": rows}))
    return with_settings(deployment, compactor_reads_own="true")


def told(site: Site) -> list[Read]:
    return list(reversed(own_state(site).reads.of_table(site.name, "default", "t", 0, 10)))


def test_a_scan_that_is_read_to_its_end_is_told(site: Site) -> None:
    table = Store(site).load_table("default.t")
    assert table.scan("a > 1", selected_fields=["a"]).to_arrow().num_rows == 2
    assert table.scan("a > 2").to_arrow().num_rows == 1
    assert table.scan("a > 7", selected_fields=["A"]).count() == 0
    one, two, three = sorted(told(site), key=lambda read: read.at)
    assert (one.engine, one.files) == ("compactor", 2)
    assert one.seconds > 0
    assert one.bytes is not None
    assert one.bytes > 0
    assert len({one.like, two.like, three.like}) == 3


def test_like_scans_are_alike(site: Site) -> None:
    table = Store(site).load_table("default.t")
    for text in ("a > 1", "a  >  2"):
        table.scan(text).to_arrow()
    assert len({read.like for read in told(site)}) == 1
    assert len(told(site)) == 2


def test_what_is_left_unread_is_not_told_and_by_default_nothing_is(site: Site, deployment: Site) -> None:
    with Store(site).load_table("default.t").scan().to_arrow_batch_reader() as reader:
        reader.read_next_batch()
    Store(deployment).load_table("default.t").scan().to_arrow()
    assert told(site) == []


def test_a_state_that_cannot_be_written_spoils_no_scan(
    site: Site, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> int:
        raise OSError("no space")

    monkeypatch.setattr(Reads, "add", fail)
    with caplog.at_level(logging.WARNING):
        assert Store(site).load_table("default.t").scan().to_arrow().num_rows == 3
    assert "recording a scan of default.t" in caplog.text

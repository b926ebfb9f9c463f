"""A compaction on a file system whose files share blocks: stripes are taken over, and every row is there."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pyarrow.orc as po
import pytest

from compactor.base.steps import StoreStep
from compactor.batches.assembly import list_claimable_ids
from compactor.batches.driver import run_entries
from compactor.requests.request import request_compaction
from compactor.rewrite.plan.unit import Shape
from compactor.rewrite.run.execute import perform_task
from compactor.rewrite.run.runner import InProcessRunner
from compactor.site.lost_workers import repair
from compactor.site.site import Site
from compactor.storage.store_options import StoreOptions
from tests.support import roles
from tests.support.forked import die
from tests.support.moved_tables import read_rows
from tests.support.passes import age, clean_all
from tests.support.reflinks import xfs
from tests.support.tables import with_settings
from tests.support.units import UnitResult, acid_unit
from tests.support.watching import names_in
from tests.support.wide_stripes import ROW_TYPE, wide_table, write_delta

STRIPE_BYTES = 2 << 20


@pytest.mark.whole
@pytest.mark.parametrize("switched_off", [False, True])
def test_stripes_are_taken_over_where_files_share_blocks(tmp_path: Path, switched_off: bool) -> None:
    """PROTOCOL 4: what was not seen has no checksum, and the file is proven like any other."""
    names = [f"delta_{n:07d}_{n:07d}_0000/bucket_00000" for n in (1, 2)]
    with xfs(tmp_path, 400 << 20) as root:
        wanted = []
        for number, name in enumerate(names, 1):
            write_delta(root / name, number, 3, STRIPE_BYTES)
            wanted += po.ORCFile(root / name).read().to_pylist()
        os.sync()
        unit = replace(
            acid_unit(root, Shape.MAJOR, rows=names),
            row_type=ROW_TYPE,
            full_verify=False,
            stores=StoreOptions(takes_over=not switched_off),
        )
        done = perform_task(unit)
        assert isinstance(done, UnitResult)
        (output,) = done.outputs
        assert po.ORCFile(output.path).read().to_pylist() == wanted
        assert done.figures.stripes_copied == 6
        assert done.figures.bytes_taken_over == (0 if switched_off else done.figures.bytes_copied)
        assert (output.crc32 is None) == (not switched_off)
        assert output.length - sum(i.length for i in unit.inserts) < 2 * 4096


@pytest.mark.whole
def test_a_worker_that_is_killed_while_files_share_blocks(deployment: Site, metastore_url: str, tmp_path: Path) -> None:
    """PROTOCOL 3.1, 6: an attempt that shares blocks is an attempt; removing it takes nothing from its inputs."""
    site = with_settings(deployment, hive_txn_opentxn_timeout="1ms")
    with xfs(tmp_path, 400 << 20) as root:
        table = wide_table(site, root, deltas=2, stripes=2, stripe_bytes=STRIPE_BYTES)
        os.sync()
        before = read_rows(site, table)
        request_compaction(site, table="default.t", type="major")
        die(roles.worker, metastore_url, StoreStep.RANGE_TAKEN, 2)
        assert read_rows(site, table) == before
        age(site)
        repair(site)
        (outcome,) = run_entries(site, list_claimable_ids(site), InProcessRunner()).outcomes
        assert outcome.figures is not None
        assert outcome.figures.bytes_taken_over == outcome.figures.bytes_copied > 4 * STRIPE_BYTES // 2
        assert read_rows(site, table) == before
        clean_all(site)
        assert read_rows(site, table) == read_rows(site, table, honours_visibility=False) == before
        assert names_in(root / "t") == set(outcome.output)

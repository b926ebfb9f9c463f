"""Passes killed at every step: the next one repeats them, and no row is lost or doubled (PROTOCOL 15.8)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from compactor.base.steps import MirrorStep
from compactor.mirror.mirrored_tables import run_mirrors
from compactor.mirror.retention import named_files
from compactor.site.deployment import configure, open_site
from tests.integration.mirror.conftest import numbered
from tests.integration.mirror.test_retention import files_of
from tests.support.forked import die
from tests.support.mirrored import MirroredTable, with_catalog
from tests.support.tables import with_settings


def run_hasty_pass(url: str) -> None:
    """Runs a pass over all mirrors; older snapshots expire at once."""
    environment = {"COMPACTOR_METASTORE_URL": url}
    with open_site(configure(environment=environment, flags={"compactor.mirror.retention": "0h"})) as site:
        list(run_mirrors(with_catalog(site, Path(url.removeprefix("sqlite:///")).parent / "lake")))


@pytest.mark.parametrize("step", MirrorStep)
def test_a_pass_that_died_is_repeated(mirrored: MirroredTable, metastore_url: str, step: MirrorStep) -> None:
    mirrored.must_be_equal()
    mirrored.table.append(numbered(range(5, 8)))
    mirrored.table.delete("id = 1")
    before = mirrored.shown()
    die(run_hasty_pass, metastore_url, step)
    has_committed = step in (MirrorStep.MIRROR_COMMITTED, MirrorStep.MIRROR_EXPIRED)
    assert mirrored.shown() == (mirrored.expected() if has_committed else before)
    mirrored.must_be_equal()
    mirrored.table.append(numbered(range(8, 9)))
    hasty = replace(mirrored, site=with_settings(mirrored.site, compactor_mirror_retention="0h"))
    hasty.must_be_equal()
    assert files_of(mirrored) == named_files(mirrored.iceberg), "whatever died left no file"

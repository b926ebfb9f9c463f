"""``compactor doctor``."""

from __future__ import annotations

import sys

import click

from compactor.cli.face import FAILED, Face, faced
from compactor.cli.output import print_json
from compactor.errors import CompactorError

_MARKS = {"ok": "ok  ", "warn": "warn", "fail": "FAIL"}


@click.command()
@click.option(
    "--before-hive-3",
    is_flag=True,
    help="Instead, list what Hive 2 must compact before it is replaced: partitions updated since their last major.",
)
@faced
def doctor(face: Face, before_hive_3: bool) -> None:
    """Check a deployment, writing nothing, and say what to fix."""
    from compactor.service import before_hive_3 as upgrade
    from compactor.service import doctor as service

    try:
        with face.site(read_only=True) as site:
            findings = upgrade.before_hive_3(site) if before_hive_3 else service.doctor(site)
    except CompactorError as error:  # what cannot be opened is a finding as well
        findings = [service.broken("deployment", error), *service.machine()]
    failed = sum(finding.level is service.Level.FAIL for finding in findings)
    if face.json:
        print_json({"metastore": face.metastore, "failed": failed, "findings": [f.to_json() for f in findings]})
    else:
        for finding in findings:
            click.echo(f"{_MARKS[finding.level.value]}  {finding.subject}: {finding.found}")
            if finding.level is not service.Level.OK:
                for word, text in (("wanted", finding.wanted), ("fix", finding.fix)):
                    if text:
                        click.echo(f"      {word}: {text}")
    if failed:
        sys.exit(FAILED)

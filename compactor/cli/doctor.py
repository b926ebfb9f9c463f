"""``compactor doctor``."""

from __future__ import annotations

import sys

import click

from compactor.cli.face import FAILED, Face, faced
from compactor.cli.output import print_json
from compactor.errors import CompactorError

_MARKS = {"ok": "ok  ", "warn": "warn", "fail": "FAIL"}


@click.command()
@faced
def doctor(face: Face) -> None:
    """Check a deployment, writing nothing, and say what to fix."""
    from compactor.service import doctor as service

    try:
        with face.site(read_only=True) as site:
            findings = service.doctor(site)
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

"""``compactor doctor``: checks of a deployment, and the last compactions of Hive 2."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click

from compactor.base.errors import CompactorError, NotSupported
from compactor.cli.context import FAILED, CliContext, with_context
from compactor.cli.output import print_json, say

if TYPE_CHECKING:
    from compactor.site.finding import Finding

_MARKS = {"ok": "ok  ", "warn": "warn", "fail": "FAIL"}


@click.command()
@click.option(
    "--before-hive-3",
    is_flag=True,
    help="List instead the partitions that Hive 2 must compact before it is replaced: updated since their last major.",
)
@click.option(
    "--compact",
    is_flag=True,
    help="With --before-hive-3, while Hive 2.3 still runs: run those major compactions here.",
)
@click.option("--verify", type=click.Choice(["full"]), help="With --compact: compare all output with the input.")
@with_context
def doctor(context: CliContext, before_hive_3: bool, compact: bool, verify: str | None) -> None:
    """Check a deployment and report what to fix. Nothing is written unless --compact is given."""
    from compactor.doctor import checks as service
    from compactor.site.finding import Level

    if (compact or verify) and not before_hive_3:
        raise click.UsageError("--compact and --verify belong to --before-hive-3")
    if verify and not compact:
        raise click.UsageError("--verify belongs to --compact")
    try:
        if before_hive_3:
            findings = _check_hive_2(context, compact, full_verify=verify == "full")
        else:
            with context.site(read_only=True) as site:
                findings = service.doctor(site)
    except CompactorError as error:  # a deployment that cannot be opened is a finding
        findings = [service.broken("deployment", error), *service.machine()]
    findings += _check_files(context)
    failed = sum(finding.level is Level.FAIL for finding in findings)
    if context.json:
        print_json({"metastore": context.metastore, "failed": failed, "findings": [f.to_json() for f in findings]})
    else:
        for finding in findings:
            say(f"{_MARKS[finding.level.value]}  {finding.subject}: {finding.found}")
            if finding.level is not Level.OK:
                for word, text in (("wanted", finding.wanted), ("fix", finding.fix)):
                    if text:
                        say(f"      {word}: {text}")
    if failed:
        sys.exit(FAILED)


def _check_files(context: CliContext) -> list[Finding]:
    from compactor.doctor.checks import check_files
    from compactor.site.deployment import used_files

    files = used_files(context.metastore, flags=context.flags, config_path=context.config)
    return list(
        check_files(
            [file.path for file in files if not file.is_secret],
            [(file.what, file.path, file.by_directory) for file in files if file.is_secret],
        )
    )


def _check_hive_2(context: CliContext, compact: bool, *, full_verify: bool) -> list[Finding]:
    from compactor.hive2.last_majors import compact_before_hive_3
    from compactor.hive2.upgrade_check import before_hive_3
    from compactor.rewrite.run.runner import InProcessRunner
    from compactor.site.old_site import OldSite, open_before_hive_3

    with open_before_hive_3(context.configuration(), read_only=not compact) as site:
        if not compact:
            is_upgraded = not isinstance(site, OldSite)
            return before_hive_3(site.metastore.catalog, site.storage, is_upgraded=is_upgraded)
        if not isinstance(site, OldSite):
            raise NotSupported(
                f"metastore {site.name}: its schema {site.metastore.schema_version} is of a later Hive, in which the "
                "meaning of Hive 2's delete events is uncertain; compact them while Hive 2.3 runs"
            )
        runner = InProcessRunner(os.cpu_count() or 1)
        return list(compact_before_hive_3(site, runner, full_verify=full_verify))

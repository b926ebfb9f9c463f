"""The doctor's check of the files that the configuration reads: who else may read a secret, or change what is believed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from compactor.base.private_files import why_not_secret, why_not_trusted
from compactor.site.finding import Finding, Level, ok

_SUBJECT = "files of the configuration"


def check_files(configurations: Iterable[Path], secrets: Iterable[tuple[str, Path, bool]]) -> Iterator[Finding]:
    """Yields a finding for each file whose owner or mode is too wide; those that are not there are left out.

    Args:
        secrets: each with the name of its setting, and whether a directory may keep others out instead.
    """
    looked_at = 0
    is_well = True
    for path in configurations:
        looked_at += path.exists()
        if (because := why_not_trusted(path)) is not None:
            is_well = False
            yield Finding(
                level=Level.WARN,
                subject=_SUBJECT,
                found=f"{path}: {because}",
                wanted="configuration that only this user or root may write: it says which secrets are sent where",
                fix=f"chmod go-w {path}, or give it to this user",
            )
    for what, path, by_directory in secrets:
        looked_at += path.exists()
        if (because := why_not_secret(path, by_directory=by_directory)) is not None:
            is_well = False
            yield Finding(
                level=Level.FAIL,
                subject=_SUBJECT,
                found=f"{what} {path}: {because}",
                wanted="secrets that nobody else may read or replace; this one is not used",
                fix=f"chmod 600 {path}, or give it to this user",
            )
    if is_well and looked_at:
        yield ok(_SUBJECT, f"nobody else may write the configuration or read a secret ({looked_at} files)")

"""The doctor's check that nobody else may change the configuration or read its secrets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from compactor.base.private_files import why_not_secret, why_not_trusted
from compactor.site.finding import Finding, Level, ok

_SUBJECT = "files of the configuration"


def check_files(configurations: Iterable[Path], secrets: Iterable[tuple[str, Path, bool]]) -> Iterator[Finding]:
    """Yields a finding for each existing file whose owner or mode gives others access.

    Args:
        secrets: the setting, the file, and whether a directory above it may keep others out instead.
    """
    existing = 0
    is_private = True
    for path in configurations:
        existing += path.exists()
        if (problem := why_not_trusted(path)) is not None:
            is_private = False
            yield Finding(
                level=Level.WARN,
                subject=_SUBJECT,
                found=f"{path}: {problem}",
                wanted="configuration that only this user or root may write: it says which secrets are sent where",
                fix=f"chmod go-w {path}, or give it to this user",
            )
    for what, path, by_directory in secrets:
        existing += path.exists()
        if (problem := why_not_secret(path, by_directory=by_directory)) is not None:
            is_private = False
            yield Finding(
                level=Level.FAIL,
                subject=_SUBJECT,
                found=f"{what} {path}: {problem}",
                wanted="secrets that nobody else may read or replace; this one is not used",
                fix=f"chmod 600 {path}, or give it to this user",
            )
    if is_private and existing:
        yield ok(_SUBJECT, f"nobody else may write the configuration or read a secret ({existing} files)")

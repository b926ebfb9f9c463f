"""Passes the site's secret keys of Spark to spark-submit, outside of plans, rows and command lines.

A plan holds only public keys. The launcher reads the secret ones from the site's configuration, and passes them on in a file
in memory, which spark-submit inherits. The file has no name in any directory. Only processes of the same user can open it,
and it vanishes with the last of them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from compactor.base.private_files import must_be_secret

_DEFAULTS = "spark-defaults.conf"
SPARK_KEYTABS = ("spark.kerberos.keytab", "spark.yarn.keytab")  #: keys that name a keytab
_ESCAPED = re.compile(r"[\\\s=:#!]")


@contextmanager
def properties_file(secrets: Mapping[str, str], instead_of: Path) -> Iterator[int | None]:
    """Yields the descriptor of a file for ``--properties-file``, to be inherited; None without secrets.

    Args:
        instead_of: the file that spark-submit would read otherwise. It reads only one, so these entries come first.
    """
    if not secrets:
        yield None
        return
    descriptor = os.memfd_create("spark.properties", os.MFD_CLOEXEC)
    try:
        os.fchmod(descriptor, 0o600)
        with open(descriptor, "wb", closefd=False) as file:
            file.write(_content(instead_of))
            file.write(b"\n")
            file.writelines(f"{_escape(key)}={_escape(value)}\n".encode() for key, value in sorted(secrets.items()))
        yield descriptor
    finally:
        os.close(descriptor)


def check_keytabs(conf: Mapping[str, str]) -> None:
    """Checks that nobody else may read or replace a keytab that spark-submit uses.

    Raises:
        BadSetting: somebody else may.
    """
    for key in SPARK_KEYTABS:
        if path := conf.get(key):
            must_be_secret(Path(path.removeprefix("file:")), key)


def inherited_path(descriptor: int) -> str:
    """Returns the path that opens the file of ``descriptor`` in any process that inherits it."""
    return f"/proc/self/fd/{descriptor}"


def defaults_file(program: str, environ: Mapping[str, str]) -> Path:
    """Returns the path of the spark-defaults.conf that ``program`` reads, even if it does not exist."""
    home = environ.get("SPARK_HOME") or str(Path(os.path.realpath(program)).parents[1])
    return Path(environ.get("SPARK_CONF_DIR") or f"{home}/conf", _DEFAULTS)


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""


def _escape(text: str) -> str:
    """Returns ``text`` as Java's ``Properties.load`` reads it back."""
    return _ESCAPED.sub(
        lambda match: {"\n": r"\n", "\r": r"\r", "\t": r"\t", "\f": r"\f"}.get(match[0], f"\\{match[0]}"), text
    )

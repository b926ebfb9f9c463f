"""This machine's configuration of YARN, as spark-submit reads it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from compactor.settings.hive_site import parse_site

FOLDERS = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")  #: environment variables; a later one's values win
_FILES = ("core-site.xml", "yarn-site.xml")


def read_configuration(environ: Mapping[str, str]) -> dict[str, str]:
    """Returns the values of core-site.xml and yarn-site.xml; empty if there are none.

    Raises:
        BadSetting: a file cannot be parsed.
    """
    values: dict[str, str] = {}
    for folder in filter(None, (environ.get(name) for name in FOLDERS)):
        for name in _FILES:
            try:
                values |= parse_site(Path(folder, name).read_bytes())
            except OSError:
                continue
    return values


def is_https(values: Mapping[str, str]) -> bool:
    """Returns true if YARN's daemons serve their pages by HTTPS."""
    return values.get("yarn.http.policy", "").strip() == "HTTPS_ONLY"

"""Section ``[compactor]`` of Airflow's own configuration: all that parsing a DAG may read."""

from __future__ import annotations

import re

from airflow.configuration import conf

from compactor.airflow.options import OPTIONS, SECTION
from compactor.errors import BadSetting

_NAME = re.compile(r"[A-Za-z0-9_\-]+")


def text(key: str) -> str:
    """The value of ``key`` as Airflow resolves it (environment, airflow.cfg, command), else our default."""
    return str(conf.get(SECTION, key, fallback=OPTIONS[key].default)).strip()


def one_of(key: str, *allowed: str) -> str:
    """The value of ``key``, which is one of ``allowed``.

    Raises:
        BadSetting: it is another one.
    """
    found = text(key)
    if found not in allowed:
        wanted = ", ".join(repr(value) for value in allowed)
        raise BadSetting(f"[{SECTION}] {key} of Airflow's configuration is {found!r}; wanted: one of {wanted}")
    return found


def seconds(key: str) -> float:
    """The value of ``key`` as a positive number of seconds.

    Raises:
        BadSetting: it is not a number above 0.
    """
    found = text(key)
    try:
        value = float(found)
    except ValueError:
        value = 0.0
    if value <= 0:
        raise BadSetting(
            f"[{SECTION}] {key} of Airflow's configuration is {found!r}; wanted: a number of seconds above 0"
        )
    return value


def dag_id(name: str, metastore: str) -> str:
    """The id of one of the five DAGs of a metastore."""
    return name if metastore == "default" else f"{name}__{metastore}"


def metastore_names() -> tuple[str, ...]:
    """The metastores that get DAGs, in the order written.

    Raises:
        BadSetting: a name cannot be part of a DAG id, or stands twice.
    """
    names = tuple(name.strip() for name in text("metastores").split(",") if name.strip())
    for name in names:
        if not _NAME.fullmatch(name):
            raise BadSetting(
                f"[{SECTION}] metastores of Airflow's configuration names {name!r}; "
                "wanted: letters, digits, _ and - only"
            )
    if not names or len(set(names)) != len(names):
        raise BadSetting(
            f"[{SECTION}] metastores of Airflow's configuration is {text('metastores')!r}; "
            "wanted: at least one name, and each only once"
        )
    return names

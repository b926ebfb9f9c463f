"""Section ``[compactor]`` of Airflow's own configuration: all that parsing a DAG may read."""

from __future__ import annotations

import re

from airflow.configuration import conf

from compactor.airflow.options import OPTIONS, SECTION
from compactor.errors import BadSetting
from compactor.settings.setting import Setting, SettingUnit, parse

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


def boolean(key: str) -> bool:
    """The value of ``key`` as a truth value.

    Raises:
        BadSetting: it is none.
    """
    return one_of(key, "True", "true", "False", "false").lower() == "true"


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


def airflow_pools() -> dict[str, str]:
    """Which Airflow pool the requests of a compaction pool wait in, where it has one of its own.

    Raises:
        BadSetting: it is written otherwise than as ``night=compaction_night``, or a pool's name cannot name a task.
    """
    pools: dict[str, str] = {}
    for pair in filter(None, (part.strip() for part in text("airflow_pools").split(","))):
        pool, equals, airflow_pool = (part.strip() for part in pair.partition("="))
        if not equals or not airflow_pool or not _NAME.fullmatch(pool) or pool in pools:
            raise BadSetting(
                f"[{SECTION}] airflow_pools of Airflow's configuration has {pair!r}; wanted: COMPACTION POOL=AIRFLOW POOL, "
                "each once, the first of letters, digits, _ and - only"
            )
        pools[pool] = airflow_pool
    return pools


def approval_bytes() -> int | None:
    """Above which size a person is asked; None for never.

    Raises:
        BadSetting: it is no size.
    """
    found = text("approval_bytes")
    if not found:
        return None
    return int(parse(Setting(key=f"[{SECTION}] approval_bytes", default="0", unit=SettingUnit.BYTES, effect=""), found))

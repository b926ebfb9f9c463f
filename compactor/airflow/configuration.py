"""Reads section ``[compactor]`` of Airflow's configuration, the only input of DAG parsing."""

from __future__ import annotations

import re
from math import inf
from urllib.parse import urlsplit

from airflow.configuration import conf

from compactor.airflow.options import OPTIONS, SECTION
from compactor.base.errors import BadSetting
from compactor.settings.setting import Setting, SettingUnit, parse

_NAME = re.compile(r"[A-Za-z0-9_\-]+")


def text(key: str) -> str:
    """Returns the value of ``key`` as Airflow resolves it, else our default.

    Airflow reads the environment, airflow.cfg and a command.
    """
    return str(conf.get(SECTION, key, fallback=OPTIONS[key].default)).strip()


def read_choice(key: str, *allowed: str) -> str:
    """Returns the value of ``key``, which must be one of ``allowed``.

    Raises:
        BadSetting: it has another value.
    """
    value = text(key)
    if value not in allowed:
        choices = ", ".join(repr(choice) for choice in allowed)
        raise BadSetting(f"[{SECTION}] {key} of Airflow's configuration is {value!r}; expected: one of {choices}")
    return value


def seconds(key: str) -> float:
    """Returns the value of ``key`` as a positive number of seconds.

    Raises:
        BadSetting: it is not a number above 0.
    """
    return check_seconds(f"[{SECTION}] {key} of Airflow's configuration", text(key))


def check_seconds(name: str, value: str | float) -> float:
    """Returns the value of ``name`` as a positive number of seconds: a trigger must not fire at once.

    Raises:
        BadSetting: it is not a number above 0.
    """
    try:
        number = float(value)
    except ValueError:
        number = 0.0
    if not 0 < number < inf:  # nan is neither
        raise BadSetting(f"{name} is {value!r}; expected: a number of seconds above 0")
    return number


def default_timezone() -> str | None:
    """Returns the time zone of Airflow's configuration; None for ``system``, which is not a name."""
    name = str(conf.get("core", "default_timezone", fallback="utc"))
    return None if name == "system" else name


def below_airflow(path: str) -> str:
    """Returns ``path`` as a browser requests it, since Airflow may be served below a prefix."""
    return urlsplit(conf.get("api", "base_url", fallback="") or "").path.rstrip("/") + path


def boolean(key: str) -> bool:
    """Returns the value of ``key`` as a boolean.

    Raises:
        BadSetting: it is not a boolean.
    """
    return read_choice(key, "True", "true", "False", "false").lower() == "true"


def dag_id(name: str, metastore: str) -> str:
    """Returns the id of one of the five DAGs of a metastore."""
    return name if metastore == "default" else f"{name}__{metastore}"


def metastore_names() -> tuple[str, ...]:
    """Returns the metastores that get DAGs, in the configured order.

    Raises:
        BadSetting: a name cannot be part of a DAG id, or is repeated.
    """
    names = tuple(name.strip() for name in text("metastores").split(",") if name.strip())
    for name in names:
        if not _NAME.fullmatch(name):
            raise BadSetting(
                f"[{SECTION}] metastores of Airflow's configuration names {name!r}; "
                "expected: letters, digits, _ and - only"
            )
    if not names or len(set(names)) != len(names):
        raise BadSetting(
            f"[{SECTION}] metastores of Airflow's configuration is {text('metastores')!r}; "
            "expected: at least one name, and each only once"
        )
    return names


def only_pools() -> frozenset[str] | None:
    """Returns the compaction pools that the worker DAG is limited to; None for all."""
    return frozenset(name.strip() for name in text("only_pools").split(",") if name.strip()) or None


def airflow_pools() -> dict[str, str]:
    """Returns the Airflow pool of each compaction pool that has its own.

    Raises:
        BadSetting: the form is not ``night=compaction_night``, or a pool's name cannot be part of a task id.
    """
    pools: dict[str, str] = {}
    for pair in filter(None, (part.strip() for part in text("airflow_pools").split(","))):
        pool, equals, airflow_pool = (part.strip() for part in pair.partition("="))
        if not equals or not airflow_pool or not _NAME.fullmatch(pool) or pool in pools:
            raise BadSetting(
                f"[{SECTION}] airflow_pools of Airflow's configuration has {pair!r}; expected: COMPACTION POOL=AIRFLOW "
                "POOL, each once, the first of letters, digits, _ and - only"
            )
        pools[pool] = airflow_pool
    return pools


def approval_bytes() -> int | None:
    """Returns the size above which a person must approve; None for never.

    Raises:
        BadSetting: the value is not a size.
    """
    value = text("approval_bytes")
    if not value:
        return None
    return int(parse(Setting(key=f"[{SECTION}] approval_bytes", default="0", unit=SettingUnit.BYTES, effect=""), value))

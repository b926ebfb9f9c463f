"""Reads settings from table parameters, database parameters and the properties of a request.

``compactor.<key>`` and ``compactorthreshold.<key>`` name a setting (Hive's prefixes; the second wins),
``compactor.spark.<k>`` a key of Spark; ``tblprops.<p>`` in a request overrides table parameter ``<p>`` for the writer.
``compactor.mapreduce.map.memory.mb`` is the memory of Spark's executors. Other ``compactor.mapreduce.*``,
``compactor.tez.*`` and unknown ``compactor.hive.*`` are for Hive's own jobs, unless they look like misspelt settings.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from compactor.base.errors import BadSetting
from compactor.settings import output_class, spark_conf
from compactor.settings.catalogue import CATALOGUE, closest_compaction_setting, find, lookup
from compactor.settings.setting import Scope, Setting, parse

_THRESHOLD, _OWN, _WRITER = "compactorthreshold.", "compactor.", "tblprops."
_QUEUE = "hive.compactor.job.queue"
#: The keys Hive's MapReduce compactor accepts for the queue besides the setting itself, in its order.
_OLD_QUEUE_KEYS = ("compactor.mapreduce.job.queuename", "compactor.mapred.job.queue.name")
#: The memory of a task of Hive's MapReduce compactor, in megabytes; here it is that of Spark's executors.
_MAP_MEMORY, _EXECUTOR_MEMORY = "compactor.mapreduce.map.memory.mb", "spark.executor.memory"
_NAMES = tuple(name for setting in CATALOGUE.values() for name in setting.names)
_OF_HIVES_JOBS = ("mapreduce.", "mapred.", "tez.", "hive.", "yarn.")


@dataclass(frozen=True, slots=True, kw_only=True)
class PropertySettings:
    """The settings in some properties by canonical key.

    ``ignored`` are the other properties, each with the reason.
    """

    values: Mapping[str, str]
    spark_conf: Mapping[str, str]
    table_overrides: Mapping[str, str]
    ignored: tuple[tuple[str, str], ...]


def parse_parameters(parameters: Mapping[str, str], allowed_spark: frozenset[str]) -> PropertySettings:
    """Parses the parameters of a table or a database; skips those that do not concern compaction.

    Those that look as if they did are among the ``ignored`` ones.
    """
    relevant = {key: text for key, text in parameters.items() if key.startswith((_OWN, _THRESHOLD)) or _is_plain(key)}
    overrides, refused = _parse(relevant, allowed_spark)
    mistaken = [(key, reason) for key in parameters if (reason := _describe_mistake(key)) is not None]
    return PropertySettings(
        values=overrides.values,
        spark_conf=overrides.spark_conf,
        table_overrides={},
        ignored=tuple(sorted((*refused, *mistaken, *overrides.ignored))),
    )


def parse_request(properties: Mapping[str, str], allowed_spark: frozenset[str], *, strict: bool) -> PropertySettings:
    """Parses the properties of a request.

    Raises:
        BadSetting: with ``strict``, for a property that is not accepted.
    """
    overrides, refused = _parse(properties, allowed_spark)
    for key, reason in refused if strict else ():
        raise BadSetting(f"property {key!r}: {reason}")
    return PropertySettings(
        values=overrides.values,
        spark_conf=overrides.spark_conf,
        table_overrides=overrides.table_overrides,
        ignored=tuple(sorted((*refused, *overrides.ignored))),
    )


def canonical(key: str) -> str:
    """Returns the key of the setting that a property names; any other property unchanged."""
    setting = _find_setting(key)
    return key if setting is None else setting.key


def parameters_naming(key: str) -> frozenset[str]:
    """Returns the parameters of a table or database that set the setting ``key``."""
    setting = lookup(key)
    prefixed = {prefix + name for prefix in (_OWN, _THRESHOLD) for name in setting.names}
    return frozenset({*prefixed, *(name for name in setting.names if name.startswith(_OWN))})


def _parse(properties: Mapping[str, str], allowed: frozenset[str]) -> tuple[PropertySettings, list[tuple[str, str]]]:
    """Parses properties; also returns the refused ones, each with the reason.

    Those that another property overrides are ``ignored``, and not refused.
    """
    chosen: dict[str, str] = {}  #: the property that each setting, or key of Spark, has its value from
    overridden: list[tuple[str, str]] = []
    values: dict[str, str] = {}

    def choose(name: str, key: str) -> None:
        if name in chosen:
            overridden.append((chosen[name], f"{key}, which is set too, counts"))
        chosen[name] = key

    spark: dict[str, str] = {}
    writer: dict[str, str] = {}
    refused: list[tuple[str, str]] = []
    for key in sorted(properties, key=_weakest_first):
        text = properties[key]
        if key.startswith(_WRITER):
            refusal = output_class.refusal(key.removeprefix(_WRITER), text)
            if refusal is None:
                writer[key.removeprefix(_WRITER)] = text
            else:
                refused.append((key, refusal))
            continue
        setting = _find_setting(key)
        if setting is not None:
            refusal = _check_value(setting, text)
            if refusal is None:
                values[setting.key] = text.strip()
                choose(setting.key, key)
            elif setting.tightest and setting.scope is Scope.TABLE:
                # A misspelt restriction was meant to restrict: the tightest choice applies until the text is corrected.
                values[setting.key] = setting.choices[0]
                refusal = f"{refusal}; {setting.choices[0]} applies until then"
        elif key == _MAP_MEMORY:
            size = f"{text.strip()}m"
            refusal = spark_conf.explain_refusal(_EXECUTOR_MEMORY, size, allowed)
            if refusal is None:
                spark[_EXECUTOR_MEMORY] = size
                choose(_EXECUTOR_MEMORY, key)
        elif key.startswith("compactor.spark."):
            refusal = spark_conf.explain_refusal(key.removeprefix(_OWN), text, allowed)
            if refusal is None:
                spark[key.removeprefix(_OWN)] = text.strip()
                choose(key.removeprefix(_OWN), key)
        else:
            refusal = _describe_unknown(key)
        if refusal is not None:
            refused.append((key, refusal))
    overrides = PropertySettings(values=values, spark_conf=spark, table_overrides=writer, ignored=tuple(overridden))
    return overrides, sorted(refused)


def _weakest_first(key: str) -> tuple[int, str]:
    """Returns the sort key; of two keys for one setting the later one wins."""
    if key == _MAP_MEMORY:
        return (-len(_OLD_QUEUE_KEYS) - 1, key)
    if key in _OLD_QUEUE_KEYS:
        return (-_OLD_QUEUE_KEYS.index(key) - 1, key)
    return (1 if key.startswith(_THRESHOLD) else 0, key)


def _describe_mistake(key: str) -> str | None:
    """Returns why a parameter that looks like a setting has no effect; None for any other one."""
    lowered = key.lower()
    if key.startswith((_OWN, _THRESHOLD)) or _is_plain(key):
        return None  # understood, or refused with a reason of its own
    if lowered.startswith(_WRITER):
        return f"{_WRITER}* counts in a request alone (--property), not on a table or database"
    if lowered.startswith((_OWN, _THRESHOLD)):
        return f"the names of properties are case-sensitive; write {_in_known_case(key)}"
    if lowered.startswith("compactor"):
        return f"unknown; settings are {_OWN}<setting> and {_THRESHOLD}<setting>"
    if find(lowered) is not None and lowered.startswith("hive.compactor."):
        return f"on a table or database this setting has a prefix; write {_OWN}{lowered}"
    return None


def _in_known_case(key: str) -> str:
    """Returns a property as it has to be written: in lower case, unless its setting has capitals."""
    prefix = _THRESHOLD if key.lower().startswith(_THRESHOLD) else _OWN
    name = key[len(prefix) :]
    setting = next((find(form) for form in (name, name.lower(), key.lower()) if find(form) is not None), None)
    if setting is None:
        matches = [names for names in _NAMES if names.lower() in (name.lower(), key.lower())]
        setting_name = matches[0] if matches else name.lower()
    else:
        setting_name = setting.key
    return setting_name if setting_name.startswith(_OWN) else f"{prefix}{setting_name}"


def _is_plain(key: str) -> bool:
    """Returns true if a parameter is a setting under its own name.

    Hive 4 has for example ``hive.compactor.worker.pool``.
    """
    return key == "hive.compactor.worker.pool"


def _find_setting(key: str) -> Setting | None:
    if key in _OLD_QUEUE_KEYS:
        return lookup(_QUEUE)
    if key.startswith(_OWN) and (own := find(key)) is not None:
        return own
    for prefix in (_THRESHOLD, _OWN):
        if key.startswith(prefix):
            return find(key.removeprefix(prefix))
    return find(key)


def _check_value(setting: Setting, text: str) -> str | None:
    if setting.scope is not Scope.TABLE:
        return f"{setting.key} is a setting of the site; a table or a request cannot change it"
    try:
        parse(setting, text)
    except BadSetting as error:
        return str(error)
    if setting.of_tables is not None:
        least, most = setting.of_tables
        if not _quantity(setting, least) <= _quantity(setting, text) <= _quantity(setting, most):
            return f"{setting.key}: found {text!r}, a database, table or request may set {least} to {most}"
    return None


def _quantity(setting: Setting, text: str) -> float:
    value = parse(setting, text)
    assert not isinstance(value, str)
    return value


def _describe_unknown(key: str) -> str:
    named = key.removeprefix(_OWN)
    if key.startswith(_OWN) and named.startswith(_OF_HIVES_JOBS):
        if (meant := closest_compaction_setting(named)) is not None:
            return f"setting {named!r} is unknown; did you mean {_OWN}{meant}?"
        return "meant for Hive's own compaction jobs; Compactor does not use it"
    try:
        lookup(key.removeprefix(_THRESHOLD))
    except BadSetting as error:
        return f"{error}; known are compactor.<setting>, compactor.spark.<key> and tblprops.<table property>"
    raise AssertionError(f"{key} is a known setting")

"""Reads settings from table parameters, database parameters and the properties of a request.

``compactor.<key>`` and ``compactorthreshold.<key>`` name a setting (Hive's prefixes; the second wins),
``compactor.spark.<k>`` a key of Spark; ``tblprops.<p>`` in a request overrides table parameter ``<p>`` for the writer.
``compactor.mapreduce.*``, ``compactor.tez.*`` and unknown ``compactor.hive.*`` were meant for Hive's own jobs, unless they
look like a misspelt setting.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from compactor.errors import BadSetting
from compactor.settings import spark_conf
from compactor.settings.catalogue import closest_compaction_setting, find, lookup
from compactor.settings.setting import Scope, Setting, parse

_THRESHOLD, _OWN, _WRITER = "compactorthreshold.", "compactor.", "tblprops."
_QUEUE = "hive.compactor.job.queue"
#: The keys Hive's MapReduce compactor accepts for the queue besides the setting itself, in its order.
_OLD_QUEUE_KEYS = ("compactor.mapreduce.job.queuename", "compactor.mapred.job.queue.name")
_OF_HIVES_JOBS = ("mapreduce.", "mapred.", "tez.", "hive.", "yarn.")


@dataclass(frozen=True, slots=True, kw_only=True)
class PropertySettings:
    """The settings that properties give, by canonical key, and the ``ignored`` properties, each with the reason."""

    values: Mapping[str, str]
    spark_conf: Mapping[str, str]
    table_overrides: Mapping[str, str]
    ignored: tuple[tuple[str, str], ...]


class _Refusal(NamedTuple):
    """The reason why a property is not accepted. A ``foreign`` one is harmless, even in a request."""

    reason: str
    foreign: bool = False


def of_table(parameters: Mapping[str, str], allowed_spark: frozenset[str]) -> PropertySettings:
    """Reads the parameters of a table or a database; those that do not concern compaction are skipped."""
    concerned = {key: text for key, text in parameters.items() if key.startswith((_OWN, _THRESHOLD)) or _is_plain(key)}
    overrides, refused = _read(concerned, allowed_spark)
    ignored = tuple((key, refusal.reason) for key, refusal in refused)
    return PropertySettings(
        values=overrides.values, spark_conf=overrides.spark_conf, table_overrides={}, ignored=ignored
    )


def of_request(properties: Mapping[str, str], allowed_spark: frozenset[str], *, strict: bool) -> PropertySettings:
    """Reads the properties of a request.

    Raises:
        BadSetting: with ``strict``, for a property that is not accepted and was not meant for Hive's own jobs.
    """
    overrides, refused = _read(properties, allowed_spark)
    for key, refusal in refused:
        if strict and not refusal.foreign:
            raise BadSetting(f"property {key!r}: {refusal.reason}")
    return PropertySettings(
        values=overrides.values,
        spark_conf=overrides.spark_conf,
        table_overrides=overrides.table_overrides,
        ignored=tuple((key, refusal.reason) for key, refusal in refused),
    )


def canonical(key: str) -> str:
    """Returns the key of the setting that a property names; any other property unchanged."""
    setting = _setting(key)
    return key if setting is None else setting.key


def parameters_naming(key: str) -> frozenset[str]:
    """Returns the parameters of a table or database that set the setting ``key``."""
    setting = lookup(key)
    prefixed = {prefix + name for prefix in (_OWN, _THRESHOLD) for name in setting.names}
    return frozenset({*prefixed, *(name for name in setting.names if name.startswith(_OWN))})


def _read(
    properties: Mapping[str, str], allowed: frozenset[str]
) -> tuple[PropertySettings, list[tuple[str, _Refusal]]]:
    values: dict[str, str] = {}
    spark: dict[str, str] = {}
    writer: dict[str, str] = {}
    refused: list[tuple[str, _Refusal]] = []
    for key in sorted(properties, key=_weakest_first):
        text = properties[key]
        if key.startswith(_WRITER):
            writer[key.removeprefix(_WRITER)] = text
            continue
        setting = _setting(key)
        if setting is not None:
            refusal = _refusal(setting, text)
            if refusal is None:
                values[setting.key] = text.strip()
            elif setting.tightest and setting.scope is Scope.TABLE:
                # A misspelt restriction was meant to restrict: the tightest choice applies until the text is corrected.
                values[setting.key] = setting.choices[0]
                refusal = _Refusal(f"{refusal.reason}; {setting.choices[0]} applies until then", refusal.foreign)
        elif key.startswith("compactor.spark."):
            refusal = _spark_refusal(key.removeprefix(_OWN), text, allowed)
            if refusal is None:
                spark[key.removeprefix(_OWN)] = text.strip()
        else:
            refusal = _unknown(key)
        if refusal is not None:
            refused.append((key, refusal))
    overrides = PropertySettings(values=values, spark_conf=spark, table_overrides=writer, ignored=())
    return overrides, sorted(refused)


def _weakest_first(key: str) -> tuple[int, str]:
    """Returns the sort key; of two keys for one setting the later one wins."""
    if key in _OLD_QUEUE_KEYS:
        return (-_OLD_QUEUE_KEYS.index(key) - 1, key)
    return (1 if key.startswith(_THRESHOLD) else 0, key)


def _is_plain(key: str) -> bool:
    """Tells whether a parameter is a setting under its own name (``hive.compactor.worker.pool``, as in Hive 4)."""
    return key == "hive.compactor.worker.pool"


def _setting(key: str) -> Setting | None:
    if key in _OLD_QUEUE_KEYS:
        return lookup(_QUEUE)
    if key.startswith(_OWN) and (own := find(key)) is not None:
        return own
    for prefix in (_THRESHOLD, _OWN):
        if key.startswith(prefix):
            return find(key.removeprefix(prefix))
    return find(key)


def _refusal(setting: Setting, text: str) -> _Refusal | None:
    if setting.scope is not Scope.TABLE:
        reason = f"{setting.key} is a setting of the site; a table or a request cannot change it"
        return _Refusal(reason, foreign=not setting.honoured)
    try:
        parse(setting, text)
    except BadSetting as error:
        return _Refusal(str(error))
    if setting.of_tables is not None:
        least, most = setting.of_tables
        if not _quantity(setting, least) <= _quantity(setting, text) <= _quantity(setting, most):
            return _Refusal(f"{setting.key}: found {text!r}, a database, table or request may set {least} to {most}")
    return None


def _quantity(setting: Setting, text: str) -> float:
    value = parse(setting, text)
    assert not isinstance(value, str)
    return value


def _spark_refusal(key: str, text: str, allowed: frozenset[str]) -> _Refusal | None:
    reason = spark_conf.refusal(key, text, allowed)
    return None if reason is None else _Refusal(reason)


def _unknown(key: str) -> _Refusal:
    named = key.removeprefix(_OWN)
    if key.startswith(_OWN) and named.startswith(_OF_HIVES_JOBS):
        if (meant := closest_compaction_setting(named)) is not None:
            return _Refusal(f"setting {named!r} is unknown; did you mean {_OWN}{meant}?")
        return _Refusal("meant for Hive's own compaction jobs; Compactor has no use for it", foreign=True)
    try:
        lookup(key.removeprefix(_THRESHOLD))
    except BadSetting as error:
        return _Refusal(f"{error}; known are compactor.<setting>, compactor.spark.<key> and tblprops.<table property>")
    raise AssertionError(f"{key} is a setting after all")

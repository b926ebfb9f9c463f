"""The precedence of a setting's sources, and the settings that a table or a request may change.

request > override > table > database > flag > environment > off-peak hours of a pool > compactor.toml or connection >
metastore-site.xml > hive-site.xml > default. An override is kept in our state for one table; a user who may compact the
table sets it. Overrides are not trusted, and neither are parameters of tables and databases, which anybody with ALTER may
write: only settings of scope ``TABLE`` and allowed Spark keys are taken from them. ``Settings.ignored`` lists the rest.

A site's own file may give modes to single databases, without a change in Hive. A database without its own mode has that of
its metastore. Properties of databases and tables can still only tighten it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import NamedTuple, TypeVar

from compactor.base.errors import BadSetting
from compactor.base.redaction import is_secret
from compactor.settings.catalogue import CATALOGUE, find, lookup
from compactor.settings.output_class import OutputClass
from compactor.settings.setting import Setting, SettingUnit, Value, parse
from compactor.settings.table_properties import PropertySettings, parse_parameters, parse_request

_RANK = {
    "request": 0,
    "override": 1,
    "table": 2,
    "database": 3,
    "flag": 4,
    "environment": 5,
    "off-peak hours": 6,
    "compactor.toml": 7,
    "connection": 7,
    "metastore-site.xml": 8,
    "hive-site.xml": 9,
    "default": 10,
}
_DEFAULT = "default"  #: the source of defaults, which depend on the store and which nobody has written
_MODES_LAYER = "compactor.toml"  #: the layer that modes of databases belong to
_SITE_FILES = frozenset({"metastore-site.xml", "hive-site.xml"})
_UNTRUSTED = frozenset({"request", "override", "table", "database"})
_SPARK = "compactor.spark."
#: What Spark hides in its page and its event log: its default, and a little more.
_REDACTION = "spark.redaction.regex"
_SPARKS_OWN = r"(?i)secret|passw|token|credential|(?:access|account|api|private)[.]?key"
_DURATIONS = tuple(unit for unit in SettingUnit if unit.is_duration)


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """One source: its name (a key of the order above) and its texts by key, with any name of a setting."""

    name: str
    values: Mapping[str, str]


class ExplainedSetting(NamedTuple):
    """A row of ``show settings``."""

    key: str
    value: str
    source: str
    unit: str
    effect: str


def _nothing() -> Mapping[str, str]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The layers by precedence, highest first, each with canonical keys only.

    ``spark_conf`` holds ``spark.*`` keys for the Spark application, ``table_overrides`` a request's ``tblprops.*``
    without that prefix. ``ignored`` are properties of table, database and request that do not count, each with the reason.
    ``database_modes`` are the modes that the site gives to databases, by name or pattern.
    """

    layers: tuple[Layer, ...] = ()
    spark_conf: Mapping[str, str] = field(default_factory=_nothing)
    table_overrides: Mapping[str, str] = field(default_factory=_nothing)
    ignored: tuple[tuple[str, str], ...] = ()
    database_modes: Mapping[str, str] = field(default_factory=_nothing)
    _parsed: dict[str, Value] = field(default_factory=dict, init=False, repr=False, compare=False)

    @classmethod
    def of(cls, layers: Sequence[Layer] = (), database_modes: Mapping[str, str] | None = None) -> Settings:
        """Builds the settings of a site.

        The later of two layers of one rank wins; site files may have unknown keys.

        Raises:
            BadSetting: a layer is unknown, or outside of site files a key is unknown or a value bad.
        """
        spark: dict[str, str] = {}
        taken: list[Layer] = []
        for layer in sorted(layers, key=lambda layer: -_rank(layer)):
            if layer.name in _UNTRUSTED:
                raise BadSetting(f"layer {layer.name!r}: add it with with_table() or with_request()")
            spark |= {k.removeprefix("compactor."): v for k, v in layer.values.items() if _is_spark(k)}
            taken.append(Layer(name=layer.name, values=MappingProxyType(_canonicalize(layer))))
        return cls(
            layers=tuple(reversed(taken)),
            spark_conf=MappingProxyType(spark),
            database_modes=MappingProxyType(dict(database_modes or {})),
        )

    def raw(self, key: str) -> tuple[str, str]:
        """Returns the text of a setting and the name of the layer it comes from.

        Raises:
            BadSetting: the key is unknown.
        """
        setting = lookup(key)
        if setting.tightest:
            return self._tightest(setting)
        for layer in self.layers:
            if setting.key in layer.values:
                return layer.values[setting.key], layer.name
        return setting.default, _DEFAULT

    def _tightest(self, setting: Setting) -> tuple[str, str]:
        candidates = [(layer.values[setting.key], layer.name) for layer in self.layers if setting.key in layer.values]
        site = next((item for item in candidates if item[1] not in _UNTRUSTED), (setting.default, _DEFAULT))
        rank = {choice: number for number, choice in enumerate(setting.choices)}
        return min(
            (site, *(item for item in candidates if item[1] in _UNTRUSTED)), key=lambda item: rank.get(item[0], -1)
        )

    def value(self, key: str) -> Value:
        """Returns the value of a setting (durations in milliseconds, sizes in bytes).

        Raises:
            BadSetting: the key is unknown, or the text is not of its unit; the message names the source.
        """
        known = self._parsed.get(key)  # a pass reads the same settings for each of many partitions
        if known is not None:
            return known
        text, source = self.raw(key)
        try:
            value = self._parsed[key] = parse(lookup(key), text)
        except BadSetting as error:
            raise BadSetting(f"{error} (from {source})") from None
        return value

    def source(self, key: str) -> str:
        """Returns the name of the layer the value comes from; ``default`` if none has one."""
        return self.raw(key)[1]

    def integer(self, key: str) -> int:
        """Returns a count or a size in bytes."""
        return _get_typed(self, key, int, SettingUnit.COUNT, SettingUnit.BYTES)

    def ratio(self, key: str) -> float:
        return _get_typed(self, key, float, SettingUnit.RATIO)

    def milliseconds(self, key: str) -> int:
        """Returns a duration, whatever its unit."""
        return _get_typed(self, key, int, *_DURATIONS)

    def boolean(self, key: str) -> bool:
        return _get_typed(self, key, bool, SettingUnit.BOOLEAN)

    def text(self, key: str) -> str:
        return _get_typed(self, key, str, SettingUnit.TEXT)

    @property
    def without_effect(self) -> tuple[tuple[str, str], ...]:
        """The written properties and values that do not count: ignored or overridden, each with the reason."""
        overridden = [
            (f"{layer.name}: {key}", f"the value of {source} counts")
            for layer in self.layers
            if layer.name != _DEFAULT
            for key in layer.values
            if (source := self.source(key)) != layer.name
        ]
        return (*self.ignored, *overridden)

    @property
    def public_spark_conf(self) -> dict[str, str]:
        """The keys of ``spark_conf`` without secrets, for plans, our state and command lines."""
        return {key: value for key, value in self.spark_conf.items() if not is_secret(key, value)}

    @property
    def secret_spark_conf(self) -> dict[str, str]:
        """The keys of ``spark_conf`` with secrets.

        Only the site sets them, and only the application gets them.

        Raises:
            BadSetting: one is a Java option, which Spark itself puts on a command line.
        """
        secret = {key: value for key, value in self.spark_conf.items() if is_secret(key, value)}
        for key in secret:
            if key.endswith("JavaOptions"):
                raise BadSetting(
                    f"compactor.{key} holds a secret, and Spark puts options of Java on a command line that others can "
                    "list; name a file that holds it, or use the key of Spark for it, such as spark.ssl.keyStorePassword"
                )
        if secret and _REDACTION not in self.spark_conf:
            secret[_REDACTION] = "|".join((_SPARKS_OWN, *(re.escape(key) for key in sorted(secret))))
        return secret

    @property
    def output_class(self) -> OutputClass | None:
        """The class of ORC files that the request wants; None keeps that of the input files."""
        return OutputClass.from_request(self.table_overrides)

    @property
    def mode(self) -> str:
        """The mode: ``observe`` < ``request`` < ``compact`` < ``clean``.

        A site's mode is that of every database without an entry in its ``database_modes``.
        """
        return self.text(MODE_KEY)

    @property
    def loosest_mode(self) -> str:
        """The loosest mode of any database of the site: the most that a pass over all of them may do."""
        return self.mode if self._is_for_all else loosest((self.mode, *self.database_modes.values()))

    def of_database(self, database: str) -> Settings:
        """Returns the site's settings for one of its databases, still without the database's own properties."""
        mode = None if self._is_for_all else mode_of_database(self.database_modes, database)
        if mode is None:
            return self
        layer = Layer(name=_MODES_LAYER, values=MappingProxyType({MODE_KEY: mode}))
        return replace(self, layers=tuple(sorted((layer, *self.layers), key=_rank)))

    @property
    def _is_for_all(self) -> bool:
        """True if one mode holds for all databases.

        No database has its own, or a flag or the environment sets the mode.
        """
        return not self.database_modes or _RANK[self.source(MODE_KEY)] < _RANK[_MODES_LAYER]

    @property
    def digest(self) -> str:
        """The digest of the effective values of all settings that any layer sets."""
        keys = {key for layer in self.layers for key in layer.values}
        values = sorted((key, self.raw(key)[0]) for key in keys)
        return hashlib.blake2b(repr(values).encode(), digest_size=16).hexdigest()

    def explain(self) -> tuple[ExplainedSetting, ...]:
        """Lists every setting with its value as written, its source, unit and effect."""
        rows = []
        for setting in CATALOGUE.values():
            text, source = self.raw(setting.key)
            effect = setting.effect if setting.honoured else f"{setting.effect} Not used by Compactor."
            rows.append(ExplainedSetting(setting.key, text, source, setting.unit.value, effect))
        return tuple(rows)


def with_table(
    settings: Settings, table_parameters: Mapping[str, str], database_parameters: Mapping[str, str] | None = None
) -> Settings:
    """Returns the settings for one table. Bad parameters never raise; they are listed in ``ignored``."""
    allowed = allowed_spark_keys(settings)
    database = parse_parameters(database_parameters or {}, allowed)
    table = parse_parameters(table_parameters, allowed)
    return _add_layer(_add_layer(settings, "database", database), "table", table)


def with_override(settings: Settings, values: Mapping[str, str], *, strict: bool = False) -> Settings:
    """Returns the settings of a table with ``values``, kept in our state, over its own parameters.

    Raises:
        BadSetting: with ``strict``, for a bad value or a key that a table may not set.
    """
    return _add_layer(settings, "override", parse_request(values, allowed_spark_keys(settings), strict=strict))


def with_off_peak(settings: Settings, values: Mapping[str, str]) -> Settings:
    """Returns a table's settings with its pool's off-peak settings (``pool_policy.settings_at``)."""
    return _add_layer(
        settings, "off-peak hours", PropertySettings(values=values, spark_conf={}, table_overrides={}, ignored=())
    )


def with_request(settings: Settings, properties: Mapping[str, str], *, strict: bool = True) -> Settings:
    """Returns the settings for one request (WITH OVERWRITE TBLPROPERTIES, ``--property``).

    ``strict`` False is for rows of the queue that others wrote: bad properties are listed in ``ignored`` instead.

    Raises:
        BadSetting: a property is not a setting of a request, is not allowed, or has a bad value.
    """
    return _add_layer(settings, "request", parse_request(properties, allowed_spark_keys(settings), strict=strict))


def allowed_spark_keys(settings: Settings) -> frozenset[str]:
    """Returns the Spark keys that tables and requests may set (``compactor.allowed.spark.conf``)."""
    return frozenset(filter(None, map(str.strip, settings.text("compactor.allowed.spark.conf").split(","))))


def _add_layer(settings: Settings, name: str, overrides: PropertySettings) -> Settings:
    layers = settings.layers
    if overrides.values:
        layer = Layer(name=name, values=MappingProxyType(dict(overrides.values)))
        layers = tuple(sorted((layer, *layers), key=_rank))
    return replace(
        settings,
        layers=layers,
        spark_conf=MappingProxyType({**settings.spark_conf, **overrides.spark_conf}),
        table_overrides=MappingProxyType({**settings.table_overrides, **overrides.table_overrides}),
        ignored=(*settings.ignored, *((f"{name}: {key}", reason) for key, reason in overrides.ignored)),
    )


def _rank(layer: Layer) -> int:
    if layer.name not in _RANK:
        raise BadSetting(f"layer {layer.name!r} is unknown; known are {', '.join(_RANK)}")
    return _RANK[layer.name]


def _is_spark(key: str) -> bool:
    return key.startswith(_SPARK) and find(key) is None


def _canonicalize(layer: Layer) -> dict[str, str]:
    """Returns the layer's texts by canonical key.

    The newest of a setting's names wins, as in MetastoreConf.
    """
    lenient = layer.name in _SITE_FILES
    settings_by_key: dict[str, Setting] = {}
    for key in layer.values:
        setting = find(key) if lenient or _is_spark(key) else _lookup(layer, key)
        if setting is not None:
            settings_by_key[setting.key] = setting
    texts = {}
    for key, setting in settings_by_key.items():
        text = next(layer.values[name] for name in setting.names if name in layer.values)
        if lenient and not text.strip() and setting.unit is not SettingUnit.TEXT:
            continue  # an empty <value/> counts as absent
        if not lenient:
            try:
                parse(setting, text)
            except BadSetting as error:
                raise BadSetting(f"{error} (from {layer.name})") from None
        texts[key] = text
    return texts


def _lookup(layer: Layer, key: str) -> Setting:
    try:
        return lookup(key)
    except BadSetting as error:
        raise BadSetting(f"{layer.name}: {error}") from None


_T = TypeVar("_T", int, float, bool, str)


def _get_typed(settings: Settings, key: str, kind: type[_T], *units: SettingUnit) -> _T:
    setting = lookup(key)
    if setting.unit not in units:
        raise BadSetting(f"setting {key!r} is read as {kind.__name__}, but its unit is {setting.unit.value}")
    value = settings.value(key)
    assert isinstance(value, kind)
    return value


MODE_KEY = "compactor.mode"


def mode_of_database(modes: Mapping[str, str], database: str) -> str | None:
    """Returns the mode for ``database``; None if there is none.

    Its own mode counts, otherwise the tightest of the matching patterns.

    Args:
        modes: by name or pattern (``*``, ``?``, ``[...]``), in lower case, as Hive stores names.
    """
    name = database.lower()
    if name in modes:
        return modes[name]
    matching = [mode for pattern, mode in modes.items() if fnmatchcase(name, pattern)]
    return min(matching, key=_rank_mode, default=None)


def without_match(modes: Mapping[str, str], databases: Iterable[str]) -> list[str]:
    """Returns the names and patterns of ``modes`` that match no database, sorted."""
    names = [database.lower() for database in databases]
    return sorted(word for word in modes if word not in names and not any(fnmatchcase(name, word) for name in names))


def loosest(modes: Iterable[str]) -> str:
    """Returns the mode that allows the most."""
    return max(modes, key=_rank_mode)


def _rank_mode(mode: str) -> int:
    return lookup(MODE_KEY).choices.index(mode)

"""Parses ``compactor.toml``.

[metastore.NAME]            url, password_file, state_url, hive_conf, warehouse, mode
[metastore.NAME.settings]   Hive's keys and ours, as text, number or boolean
[metastore.NAME.database_modes]  the mode of single databases, by name or pattern
[metastore.NAME.pool.POOL]  where and when a compaction pool works (docs/airflow.md)
[storage.KIND]              options of the client of a kind of store (docs/storage.md)
[catalog.NAME]              properties of an Iceberg catalog, as PyIceberg calls them (docs/mirror.md)
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from compactor.base.errors import BadSetting
from compactor.settings.catalogue import lookup, parse

_KEYS = ("url", "password_file", "state_url", "hive_conf", "warehouse", "mode")
#: The characters of Hive's names and of ``fnmatch``'s patterns.
_DATABASE = re.compile(r"[\w*?\[\]!-]+")
_TABLES = ("settings", "database_modes", "pool")
FILE_OF_PROPERTY = "_file"  #: ends the keys of a catalog whose values name files


def _nothing() -> Mapping[str, str]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class MetastoreProfile:
    """The section of one metastore; None for missing keys. ``settings`` are texts by key, as written."""

    name: str
    url: str | None = None
    password_file: str | None = None
    state_url: str | None = None
    hive_conf: str | None = None
    warehouse: str | None = None
    mode: str | None = None
    settings: Mapping[str, str] = field(default_factory=_nothing)
    pools: Mapping[str, Mapping[str, object]] = field(default_factory=lambda: MappingProxyType({}))
    database_modes: Mapping[str, str] = field(default_factory=_nothing)

    @property
    def values(self) -> Mapping[str, str]:
        """All settings of the section, ready for the layer ``compactor.toml``."""
        return {**self.settings, **({"compactor.mode": self.mode} if self.mode is not None else {})}


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """The contents of a ``compactor.toml``."""

    metastores: Mapping[str, MetastoreProfile] = field(default_factory=lambda: MappingProxyType({}))
    storage: Mapping[str, Mapping[str, Any]] = field(default_factory=lambda: MappingProxyType({}), repr=False)
    catalogs: Mapping[str, Mapping[str, str]] = field(default_factory=lambda: MappingProxyType({}), repr=False)

    def metastore(self, name: str) -> MetastoreProfile:
        """Returns the section of ``name``; an empty one if the file has no sections at all.

        Raises:
            BadSetting: the file has only other metastores.
        """
        if name in self.metastores or not self.metastores:
            return self.metastores.get(name) or MetastoreProfile(name=name)
        raise BadSetting(f"metastore {name!r} is not in compactor.toml; it has {', '.join(self.metastores)}")


def parse_profile(text: str) -> Profile:
    """Parses the text of a ``compactor.toml``.

    Raises:
        BadSetting: not TOML, or an unknown table, key or value; the message names it.
    """
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadSetting(f"compactor.toml: not TOML ({error})") from None
    for key in document:
        if key not in ("metastore", "storage", "catalog"):
            raise BadSetting(
                f"compactor.toml: {key!r} is unknown at the top; expected [metastore.NAME], [storage.KIND] or "
                "[catalog.NAME]"
            )
    tables = document.get("metastore", {})
    if not isinstance(tables, dict):
        raise BadSetting("compactor.toml: 'metastore' is a value; expected [metastore.NAME]")
    storage = document.get("storage", {})
    if not isinstance(storage, dict) or not all(isinstance(table, dict) for table in storage.values()):
        raise BadSetting(
            "compactor.toml: 'storage' is not a table of tables; expected [storage.KIND], as in [storage.s3]"
        )
    return Profile(
        metastores=MappingProxyType({name: _parse_metastore(name, table) for name, table in tables.items()}),
        storage=MappingProxyType(storage),
        catalogs=_parse_catalogs(document.get("catalog", {})),
    )


def files_of_properties(catalog: str, properties: Mapping[str, str]) -> list[tuple[str, str]]:
    """Returns the files that hold properties of a catalog, each after the name of its key.

    ``token_file = "/run/secrets/lake"`` stands for the property ``token`` with the content of that file.
    """
    return [(f"[catalog.{catalog}] {key}", path) for key, path in properties.items() if key.endswith(FILE_OF_PROPERTY)]


def _parse_catalogs(tables: object) -> Mapping[str, Mapping[str, str]]:
    if not isinstance(tables, dict) or not all(isinstance(table, dict) for table in tables.values()):
        raise BadSetting(
            "compactor.toml: 'catalog' is not a table of tables; expected [catalog.NAME], as in [catalog.lake]"
        )
    return MappingProxyType({name: _parse_catalog(f"catalog.{name}.", table) for name, table in tables.items()})


def _parse_catalog(prefix: str, table: Mapping[str, object]) -> Mapping[str, str]:
    return MappingProxyType({key.removeprefix(prefix): value for key, value in _flatten(prefix, table)})


def _parse_metastore(name: str, table: object) -> MetastoreProfile:
    where = f"compactor.toml [metastore.{name}]"
    if not isinstance(table, dict):
        hint = f"; for the one metastore write [metastore.default] and {name} = … below it" if name in _KEYS else ""
        raise BadSetting(f"compactor.toml: metastore.{name} is a value; expected a table{hint}")
    texts: dict[str, str] = {}
    for key, value in table.items():
        if key in _TABLES:
            continue
        if key not in _KEYS:
            near = difflib.get_close_matches(key, (*_KEYS, *_TABLES), n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise BadSetting(
                f"{where}: key {key!r} is unknown, known are {', '.join(_KEYS)} and the tables {', '.join(_TABLES)}{hint}"
            )
        if not isinstance(value, str):
            raise BadSetting(f"{where}: {key} = {value!r}; expected a text")
        texts[key] = value
    mode = texts.get("mode")
    if mode is not None:
        parse(lookup("compactor.mode"), mode)
    return MetastoreProfile(
        name=name,
        settings=_parse_settings(where, table.get("settings", {})),
        pools=_parse_pools(where, table.get("pool", {})),
        database_modes=_parse_database_modes(where, table.get("database_modes", {})),
        **texts,
    )


def _parse_database_modes(where: str, table: object) -> Mapping[str, str]:
    if not isinstance(table, dict):
        raise BadSetting(f"{where}: database_modes is a value; expected [metastore.NAME.database_modes]")
    modes: dict[str, str] = {}
    for pattern, mode in table.items():
        if not isinstance(mode, str):
            raise BadSetting(
                f'{where}: database_modes.{pattern} = {mode!r}; expected a mode, as in {pattern} = "clean"'
            )
        if not _DATABASE.fullmatch(pattern):
            raise BadSetting(
                f"{where}: database_modes.{pattern!r} cannot be the name of a database; expected letters, digits and _, "
                "with *, ? and [...] for a pattern"
            )
        if pattern.lower() in modes:
            raise BadSetting(f"{where}: database_modes names {pattern.lower()} twice; Hive's names are in lower case")
        modes[pattern.lower()] = str(parse(lookup("compactor.mode"), mode))
    return MappingProxyType(modes)


def _parse_pools(where: str, table: object) -> Mapping[str, Mapping[str, object]]:
    if not isinstance(table, dict) or not all(isinstance(pool, dict) for pool in table.values()):
        raise BadSetting(f"{where}: pool is not a table of tables; expected [metastore.NAME.pool.POOL]")
    return MappingProxyType(dict(table))


def _parse_settings(where: str, table: object) -> Mapping[str, str]:
    if not isinstance(table, dict):
        raise BadSetting(f"{where}: settings is a value; expected [metastore.NAME.settings]")
    flat: dict[str, str] = {}
    for key, value in _flatten("", table):
        if not key.startswith("compactor.spark."):
            parse(lookup(key), value)
        flat[key] = value
    return MappingProxyType(flat)


def _flatten(prefix: str, table: Mapping[str, object]) -> list[tuple[str, str]]:
    """Flattens values by dotted key: TOML parses ``a.b = 1`` without quotes as a table in a table."""
    leaves: list[tuple[str, str]] = []
    for key, value in table.items():
        if isinstance(value, dict):
            leaves += _flatten(f"{prefix}{key}.", value)
        elif isinstance(value, bool):
            leaves.append((prefix + key, str(value).lower()))
        elif isinstance(value, str | int | float):
            leaves.append((prefix + key, str(value)))
        else:
            raise BadSetting(f"compactor.toml: {prefix}{key} = {value!r}; expected a text, a number or true or false")
    return leaves

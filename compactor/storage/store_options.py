"""The endpoints, users and credentials of stores as one value, and the places that may receive them.

Whoever creates a table chooses its location, and in some stores the host with it. Credentials go only to places that the
configuration names, so every client is opened with ``StoreOptions.admitted``.

The value travels to executors. Its text is never shown.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from compactor.base.errors import BadSetting, UnnamedPlace
from compactor.base.private_files import must_be_secret
from compactor.settings.file_limits import FileLimits
from compactor.storage.hadoop_tokens import VARIABLE
from compactor.storage.hdfs_options import HdfsOptions, acting_for, merge_cluster_options, without_log_in
from compactor.storage.places import canonical, chooses_host, goes_elsewhere, is_plain, named_in

SCHEMES: Mapping[str, str] = {
    "hdfs": "hdfs",
    "webhdfs": "hdfs",
    "swebhdfs": "hdfs",
    "s3": "s3",
    "s3a": "s3",
    "abfs": "abfs",
    "abfss": "abfs",
    "gs": "gs",
    "gcs": "gs",
}  #: scheme of a location -> kind of store
KINDS = tuple(dict.fromkeys(SCHEMES.values()))
#: Options that may name a file with a secret; a token may be the secret itself.
_SECRET_FILES = ("keytab", "session_cert", "token")
_HOST = re.compile(r"(?:[\w.-]+@)?(?:[\w.-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreOptions:
    """Options by kind of store (``hdfs``, ``s3``, ``abfs``, ``gs``) or by place (``s3://bucket``).

    Options of a place take precedence. The ``authorities`` of a kind are the places that it may reach. For absent options
    the client reads its own environment.
    """

    text: str = field(default="{}", repr=False)
    named: tuple[str, ...] = ()  #: places that other settings of the site name, as ``kind://place``
    files: FileLimits = FileLimits()  #: of each file that is read there
    takes_over: bool = True  #: stores copy ranges of files if they can
    default_zone: str | None = None  #: of ORC stripes that name no zone, if their table does not say it either

    @classmethod
    def from_tables(cls, tables: Mapping[str, Mapping[str, Any]]) -> StoreOptions:
        """Returns the options of ``[storage.…]`` tables.

        Raises:
            BadSetting: a table names an unknown store, or its ``authorities`` are not a list of names.
        """
        for name, table in tables.items():
            kind, colon, place = name.partition("://")
            if kind not in KINDS:
                raise BadSetting(
                    f"[storage.{name}]: no such store; known are {', '.join(KINDS)}, each also with a place, as in "
                    '[storage."s3://bucket"]'
                )
            if not isinstance(table, Mapping):
                raise BadSetting(f"[storage.{name}]: is a value; expected a table of options")
            if "authorities" in table:
                _check_authorities(name, table["authorities"], of_place=bool(colon))
            if kind == "hdfs":
                _check_hosts(name, [place] if colon else table.get("authorities", []))
                HdfsOptions.from_table(name, merge_cluster_options(tables.get(kind, {}) if colon else {}, table))
        return cls(text=json.dumps({name: dict(table) for name, table in tables.items()}, sort_keys=True, default=str))

    def naming(self, locations: Iterable[str | None]) -> StoreOptions:
        """Returns the options with the places of the site's own ``locations`` added to the named ones."""
        places = {place for location in locations if location and (place := _place_of(location))}
        return replace(self, named=tuple(sorted({*self.named, *places})))

    def of_place(self, kind: str, place: str) -> dict[str, Any]:
        """Returns the options for one host or bucket. To open a client, use ``admitted``."""
        tables = json.loads(self.text)
        spelling = canonical(kind, place)
        own = (table for name, table in self.of_kind(kind).items() if canonical(kind, name) == spelling)
        merged = merge_cluster_options if kind == "hdfs" else dict.__or__
        options = merged(tables.get(kind, {}), next(own, {}))
        options.pop("authorities", None)
        return options

    def of_kind(self, kind: str) -> dict[str, dict[str, Any]]:
        """Returns the options of each host or bucket that has its own table."""
        tables: dict[str, dict[str, Any]] = json.loads(self.text)
        prefix = f"{kind}://"
        return {name[len(prefix) :]: table for name, table in tables.items() if name.startswith(prefix)}

    def admitted(self, kind: str, place: str) -> dict[str, Any]:
        """Returns the options for one host or bucket that may receive credentials.

        Raises:
            UnnamedPlace: the configuration does not name it, and the location would choose where credentials go.
            BadSetting: others may read or replace a file with a secret.
        """
        if not self._is_admitted(kind, place):
            raise UnnamedPlace(_unnamed_place_message(kind, place))
        options = self.of_place(kind, place)
        if (account := goes_elsewhere(kind, place, options)) is not None:
            raise UnnamedPlace(
                f"{kind}://{place}: compactor.toml leads to the account {account!r}, where this location is not; give its "
                f'own options to [storage."{kind}://{place}"]'
            )
        for name, path in secret_files(options):
            must_be_secret(path, f"{name} of [storage.{kind}]")
        return options

    def acting_for(self, user: str) -> StoreOptions:
        """Returns the options for an application of ``user``: it acts for the user in HDFS if ``doas`` is set."""
        tables: dict[str, dict[str, Any]] = json.loads(self.text)
        of_all = {name: value for name, value in tables.get("hdfs", {}).items() if name != "authorities"}
        has_token = VARIABLE in os.environ
        changed = dict(tables)
        for name, table in tables.items():
            if name == "hdfs" or name.startswith("hdfs://"):
                whole = table if name == "hdfs" else merge_cluster_options(of_all, table)
                changed[name] = acting_for(whole, user, has_token=has_token)
        return replace(self, text=json.dumps(changed, sort_keys=True))

    def by_token(self, authority: str, token: str) -> StoreOptions:
        """Returns the options with a delegation token for one cluster, and without any log-in by Kerberos."""
        tables: dict[str, dict[str, Any]] = json.loads(self.text)
        own = without_log_in(self.of_place("hdfs", authority))
        spelling = canonical("hdfs", authority)
        kept = {
            name: without_log_in(table) if name.startswith("hdfs") and table.get("kerberos") else table
            for name, table in tables.items()
            if not (name.startswith("hdfs://") and canonical("hdfs", name.removeprefix("hdfs://")) == spelling)
        }
        kept[f"hdfs://{authority}"] = {**own, "token": token}
        return replace(self, text=json.dumps(kept, sort_keys=True))

    def _is_admitted(self, kind: str, place: str) -> bool:
        spelling = canonical(kind, place)
        own = (canonical(kind, name) for name in self.of_kind(kind))
        others = (canonical(kind, named.partition("://")[2]) for named in self.named if named.startswith(f"{kind}://"))
        if spelling in (*own, *others):
            return True
        of_all: dict[str, Any] = json.loads(self.text).get(kind, {})
        listed: list[str] | None = of_all.get("authorities")
        if listed is not None and named_in(kind, place, listed):
            return True
        if chooses_host(kind, place, of_all):
            return False
        return listed is None and is_plain(kind, place)


def _check_authorities(table: str, authorities: object, *, of_place: bool) -> None:
    if of_place:
        raise BadSetting(
            f"[storage.{table}] authorities: the table already names one place; list others under its kind, as in "
            "[storage.hdfs]"
        )
    if not isinstance(authorities, list) or not all(
        isinstance(name, str) and name and "/" not in name for name in authorities
    ):
        raise BadSetting(
            f"[storage.{table}] authorities = {authorities!r}: expected a list of names without scheme and path, "
            'such as ["namenode:8020", "nameservice"]'
        )


def _check_hosts(table: str, places: Iterable[str]) -> None:
    for place in places:
        if _HOST.fullmatch(place) is None:
            raise BadSetting(
                f"[storage.{table}]: {place!r} is not an authority of HDFS; expected a host or name service, "
                "and its port if any"
            )


def _place_of(location: str) -> str | None:
    scheme, separator, rest = location.partition("://")
    place = rest.partition("/")[0]
    return f"{SCHEMES[scheme]}://{place}" if separator and scheme in SCHEMES and place else None


def secret_files(options: Mapping[str, Any]) -> Iterator[tuple[str, Path]]:
    """Yields the existing files with secrets that a store's options name, each with its option.

    Such a file is a keytab, a certificate's key (in its own file, or with the certificate), or credentials of Google.
    """
    for name in _SECRET_FILES:
        value = options.get(name)
        value = value[-1] if isinstance(value, list) and value else value
        if isinstance(value, str) and os.path.exists(value):
            yield name, Path(value)


def _unnamed_place_message(kind: str, place: str) -> str:
    # s3a://KEY:SECRET@bucket once was a way to write a location
    shown = json.dumps(
        place.rpartition("@")[2] if kind in ("hdfs", "abfs") or ":" in place.rpartition("@")[0] else place
    )
    what = {"hdfs": "cluster", "abfs": "account"}.get(kind, "bucket")
    if not place:
        return (
            f"{kind}:///: the location names no {what}, and compactor.toml says nothing about which one is meant; write url "
            f"into [storage.{kind}]"
        )
    return (
        f"{kind}://{shown[1:-1]}: compactor.toml names no such {what}, and nothing was sent to it: whoever creates a table "
        f"chooses its location, but credentials go only where the configuration says. To have its tables compacted, write "
        f'[storage.{kind}] authorities = [{shown}], or give it a table [storage."{kind}://…"]'
    )

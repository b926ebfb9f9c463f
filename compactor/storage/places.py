"""The places of locations (cluster, account, bucket): their spelling, and which of them choose a host."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from typing import Any

_CONNECTION, _ACCOUNT = "AZURE_STORAGE_CONNECTION_STRING", "AZURE_STORAGE_ACCOUNT_NAME"  #: of Azure's clients
_HDFS_PORT = ":8020"  #: of a NameNode, where a location has none (HdfsClientConfigKeys)
_USER = re.compile(r"^[A-Za-z0-9_.-]+@")  #: no log-in uses it
#: A bucket or container whose name can only be a part of a path or a subdomain.
_PLAIN = re.compile(r"[a-z0-9](?:[a-z0-9_-]|\.(?!\.))*[a-z0-9]|[a-z0-9]|\$(?:root|web|logs)")
_AZURE = re.compile(
    r"([a-z0-9]{3,24})(?:\.(?:dfs|blob)\.core\.(?:windows\.net|chinacloudapi\.cn|usgovcloudapi\.net|cloudapi\.de))?"
)


def canonical(kind: str, place: str) -> str:
    """Returns one spelling for all spellings of a place.

    A cluster loses upper case, its user and HDFS's default port. ``container@account.dfs.core.windows.net`` becomes
    ``container@account``; an account in another domain keeps its full name. Buckets have one spelling.
    """
    if kind == "hdfs":
        return _USER.sub("", place).lower().removesuffix(_HDFS_PORT)
    if kind == "abfs":
        container, at, account = place.rpartition("@")
        return f"{container}@{account_of(account)}" if at else place
    return place


def account_of(host: str) -> str:
    """Returns the account of Azure's ``host``: ``acc`` for ``acc.dfs.core.windows.net``.

    Any other host unchanged.
    """
    match = _AZURE.fullmatch(host.lower())
    return match[1] if match else host.lower()


def named_in(kind: str, place: str, listed: Iterable[str]) -> bool:
    """Returns true if ``listed`` names this place; for Azure, if it names the account or the container."""
    spelling = canonical(kind, place)
    if kind != "abfs":
        return spelling in (canonical(kind, name) for name in listed)
    container, at, account = spelling.rpartition("@")
    accounts = {account_of(name) for name in listed if "@" not in name}
    exact = {canonical(kind, name) for name in listed if "@" in name}
    return bool(at) and (spelling in exact or (account in accounts and is_plain(kind, container)))


def is_plain(kind: str, place: str) -> bool:
    """Returns true if the place is an ordinary name that cannot change the host of a request.

    S3's client turns an access point (ARN) into another host. Every cluster is plain, since its requests go to the
    configured URL.
    """
    name = (place.rpartition("@")[0] or place) if kind == "abfs" else place
    return kind == "hdfs" or _PLAIN.fullmatch(name) is not None


def chooses_host(kind: str, place: str, options: Mapping[str, Any]) -> bool:
    """Returns true if the location, and not the ``options`` of its kind, chooses the host."""
    if kind == "hdfs":
        return not options.get("url")
    if kind != "abfs" or "@" not in place:
        return False
    account = canonical(kind, place).rpartition("@")[2]
    return account != configured_account(options)


def configured_account(options: Mapping[str, Any]) -> str | None:
    """Returns the account of Azure that ``options`` name, or None.

    A connection string in the environment counts as an option, because the client uses it.
    """
    text = str(options.get("connection_string") or os.environ.get(_CONNECTION, ""))
    parts = dict(part.partition("=")[::2] for part in text.split(";"))
    account = {key.strip().lower(): value for key, value in parts.items()}.get("accountname") or options.get(
        "account_name"
    )
    return str(account).lower() if account else None


def goes_elsewhere(kind: str, place: str, options: Mapping[str, Any]) -> str | None:
    """Returns the account of Azure that ``options`` name if the location is in another one, else None."""
    if kind != "abfs" or "@" not in place:
        return None
    account, configured = canonical(kind, place).rpartition("@")[2], configured_account(options)
    return configured if configured and configured != account.partition(".")[0] else None


def whole_location(location: str, options: Mapping[str, Any]) -> str:
    """Adds the account from ``options`` to a location in Azure without one; returns any other unchanged."""
    scheme, separator, rest = location.partition("://")
    if not separator or scheme.lower() not in ("abfs", "abfss"):
        return location
    container, slash, path = rest.partition("/")
    account = configured_account(options) or os.environ.get(_ACCOUNT, "").lower()
    if "@" in container or not account:
        return location
    return f"{scheme}://{container}@{account}{slash}{path}"

"""Places that locations lead to (a cluster, an account, a bucket): their spelling, and which of them choose a host."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from typing import Any

_CONNECTION, _ACCOUNT = "AZURE_STORAGE_CONNECTION_STRING", "AZURE_STORAGE_ACCOUNT_NAME"  #: of Azure's clients
_HDFS_PORT = ":8020"  #: of a NameNode, where a location has none (HdfsClientConfigKeys)
_USER = re.compile(r"^[A-Za-z0-9_.-]+@")  #: nobody logs in by it
#: A bucket or container that is part of a path or of a subdomain and cannot be read as anything else.
_PLAIN = re.compile(r"[a-z0-9](?:[a-z0-9_-]|\.(?!\.))*[a-z0-9]|[a-z0-9]|\$(?:root|web|logs)")
_AZURE = re.compile(
    r"([a-z0-9]{3,24})(?:\.(?:dfs|blob)\.core\.(?:windows\.net|chinacloudapi\.cn|usgovcloudapi\.net|cloudapi\.de))?"
)


def canonical(kind: str, place: str) -> str:
    """Returns one spelling for all spellings of a place.

    Of a cluster neither case counts, nor a user, nor HDFS's own port. ``container@account.dfs.core.windows.net`` is
    ``container@account``; under any other domain an account keeps its full name. Buckets have one spelling.
    """
    if kind == "hdfs":
        return _USER.sub("", place).lower().removesuffix(_HDFS_PORT)
    if kind == "abfs":
        container, at, account = place.rpartition("@")
        return f"{container}@{account_of(account)}" if at else place
    return place


def account_of(host: str) -> str:
    """Returns the account of Azure's ``host``, or the host as it is where it has another domain."""
    found = _AZURE.fullmatch(host.lower())
    return found[1] if found else host.lower()


def named_in(kind: str, place: str, listed: Iterable[str]) -> bool:
    """Returns true if one of ``listed`` is this place: for Azure the account, or one container of it."""
    wanted = canonical(kind, place)
    if kind != "abfs":
        return wanted in (canonical(kind, one) for one in listed)
    container, at, account = wanted.rpartition("@")
    accounts = {account_of(one) for one in listed if "@" not in one}
    exact = {canonical(kind, one) for one in listed if "@" in one}
    return bool(at) and (wanted in exact or (account in accounts and is_plain(kind, container)))


def is_plain(kind: str, place: str) -> bool:
    """Returns true if the place cannot change the address that is asked: a bucket's or container's ordinary name. Of
    an access point (ARN), S3's client makes another host.

    A cluster is any: its requests go to the URL that is configured."""
    name = (place.rpartition("@")[0] or place) if kind == "abfs" else place
    return kind == "hdfs" or _PLAIN.fullmatch(name) is not None


def chooses_host(kind: str, place: str, options: Mapping[str, Any]) -> bool:
    """Returns true if the location, and not ``options`` of its kind, decides which host is asked."""
    if kind == "hdfs":
        return not options.get("url")
    if kind != "abfs" or "@" not in place:
        return False
    account = canonical(kind, place).rpartition("@")[2]
    return account != configured_account(options)


def configured_account(options: Mapping[str, Any]) -> str | None:
    """Returns the account of Azure to which ``options`` lead, whatever a location says; None if they name none. A connection
    string in the environment is one of theirs: the client takes it."""
    text = str(options.get("connection_string") or os.environ.get(_CONNECTION, ""))
    parts = dict(part.partition("=")[::2] for part in text.split(";"))
    found = {key.strip().lower(): value for key, value in parts.items()}.get("accountname") or options.get(
        "account_name"
    )
    return str(found).lower() if found else None


def goes_elsewhere(kind: str, place: str, options: Mapping[str, Any]) -> str | None:
    """Returns the account of Azure to which ``options`` lead, if the location is in another one; else None."""
    if kind != "abfs" or "@" not in place:
        return None
    account, configured = canonical(kind, place).rpartition("@")[2], configured_account(options)
    return configured if configured and configured != account.partition(".")[0] else None


def whole_location(location: str, options: Mapping[str, Any]) -> str:
    """Returns a location in Azure with the account that it leaves to ``options``; any other as it is."""
    scheme, found, rest = location.partition("://")
    if not found or scheme.lower() not in ("abfs", "abfss"):
        return location
    container, slash, path = rest.partition("/")
    account = configured_account(options) or os.environ.get(_ACCOUNT, "").lower()
    if "@" in container or not account:
        return location
    return f"{scheme}://{container}@{account}{slash}{path}"

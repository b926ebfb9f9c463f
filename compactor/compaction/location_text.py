"""Locations as text: two that lead to the same place become the same text, as far as text can tell."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from urllib.parse import unquote

#: Schemes under which the same place is reached.
_SAME: Mapping[str, str] = MappingProxyType(
    {
        "webhdfs": "hdfs",
        "swebhdfs": "hdfs",
        "s3a": "s3",
        "s3n": "s3",
        "gcs": "gs",
        "abfss": "abfs",
        "wasb": "abfs",
        "wasbs": "abfs",
    }
)
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(?=/)(.*)", re.DOTALL)
_KEPT = re.compile(
    r"%(?=2[fF5])"
)  #: before an escaped slash or percent sign, which never mean a separator or an escape
MOST_COVERS = 16  #: directories that hold all of some locations, unless these lie in more stores
ALL_OTHERS = "*"  #: no host has this name


def normalised(location: str, default: str = "file:///", aliases: Mapping[str, str] = MappingProxyType({})) -> str:
    """Returns ``scheme://authority/path`` without a slash at the end; the root is ``scheme://authority``.

    Schemes of the same store become one (s3a and s3n are s3, webhdfs is hdfs). Of the authority the case does not count, nor
    do a port of HDFS, a user, and the domain of an Azure account; ``file://localhost`` is ``file://``. In the path, double
    slashes, ``.`` and ``..`` are resolved, then escapes, but for those of ``/`` and ``%``: Hive writes a value ``a/b`` as
    ``a%2Fb``, which is one name. Where engines differ (Hive takes an escape as it stands, Spark decodes it), two places may
    become one, never one place two.

    Args:
        default: the default file system, for a location without scheme or authority.
        aliases: names of one and the same HDFS cluster, with the one that stands for all of them (``aliases_of``).
    """
    scheme, authority, path = _parts(location)
    if not scheme:
        scheme, authority, _ = _parts(default)
    elif not authority and _parts(default)[0] == scheme:
        authority = _parts(default)[1]
    if scheme == "hdfs":
        authority = aliases.get(authority, aliases.get(ALL_OTHERS, authority))
    names: list[str] = []
    for name in path.split("/"):
        if name == "..":
            del names[-1:]
        elif name not in ("", "."):
            names.append(_decoded(name))
    return "/".join([f"{scheme}://{authority}", *names])


def _parts(location: str) -> tuple[str, str, str]:
    """Returns the scheme (empty if there is none), the authority and the path."""
    match = _SCHEME.fullmatch(location)
    if match is None:
        return "", "", location
    scheme, rest = match[1].lower(), match[2]
    scheme = _SAME.get(scheme, scheme)
    if not rest.startswith("//"):
        return scheme, "", rest
    authority, _, path = rest[2:].partition("/")
    return scheme, _host(scheme, authority.lower()), path


def _host(scheme: str, authority: str) -> str:
    if scheme == "file":
        return "" if authority == "localhost" else authority
    if scheme == "hdfs":
        return authority.rpartition("@")[2].partition(":")[0]
    if scheme == "abfs":
        container, at, account = authority.partition("@")
        return f"{container}@{account.partition('.')[0]}" if at else authority
    return authority


def _decoded(name: str) -> str:
    if "%" not in name:
        return name
    decoded = unquote(_KEPT.sub("%25", name))
    return name if decoded in (".", "..") or "/" in decoded else decoded


def is_inside(location: str, other: str) -> bool:
    """Returns true if the normalised ``location`` lies below ``other``."""
    return location.startswith(f"{other}/")


def covers(locations: Iterable[str]) -> list[str]:
    """Returns a few directories that hold all of these normalised locations: those above them, as near as a few can be.
    More than ``MOST_COVERS`` are the roots of as many clusters and buckets."""
    current = {_parent(location) for location in locations}
    while len(current) > MOST_COVERS:
        deepest = max(location.count("/") for location in current)
        raised = {_parent(one) if one.count("/") == deepest else one for one in current}
        if raised == current:
            break
        current = raised
    return sorted(one for one in current if not any(is_inside(one, other) for other in current))


def _parent(location: str) -> str:
    """Returns the directory above; that of a root is the root itself."""
    root, _, path = location.partition("://")
    authority, slash, names = path.partition("/")
    return "/".join([f"{root}://{authority}", *names.split("/")[:-1]]) if slash else location


def spelling(location: str) -> str:
    """Returns the part of a normalised location that its usual spellings share: the path in a cluster or on a machine,
    bucket and path in an object store.
    """
    scheme, _, rest = location.partition("://")
    authority, slash, path = rest.partition("/")
    inside = f"/{path}" if slash else ""
    return inside if scheme in ("file", "hdfs") or "@" in authority else f"//{authority}{inside}"


def aliases_of(clusters: Mapping[str, Collection[str]]) -> dict[str, str]:
    """Returns aliases for ``normalised``.

    Args:
        clusters: the addresses (``host:port``) of each cluster's NameNodes, by a name of the cluster. Two names with an
            address in common are one cluster. ``ALL_OTHERS`` stands for every authority that is not among the names.
    """
    by_address: dict[str, str] = {}
    found: dict[str, str] = {}
    for name, addresses in clusters.items():
        own = name if name == ALL_OTHERS else _host("hdfs", name.lower())
        lowered = [address.lower() for address in addresses]
        one = next((by_address[address] for address in lowered if address in by_address), own)
        by_address |= dict.fromkeys(lowered, one)
        found |= {own: one, **{_host("hdfs", address): one for address in lowered}}
    return found

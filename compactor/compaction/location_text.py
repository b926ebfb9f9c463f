"""Normalises locations, so that different spellings of one place become the same text where possible."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from urllib.parse import unquote

#: Schemes under which the same place is reached.
_SAME_STORE: Mapping[str, str] = MappingProxyType(
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
_LITERAL_ESCAPE = re.compile(
    r"%(?=2[fF5])"
)  #: before an escaped slash or percent sign, which never mean a separator or an escape
MOST_COVERS = 16  #: most directories that ``find_covers`` returns, unless the locations lie in more stores
ALL_OTHERS = "*"  #: no host has this name


def normalise_location(
    location: str, default: str = "file:///", aliases: Mapping[str, str] = MappingProxyType({})
) -> str:
    """Returns ``scheme://authority/path`` without a slash at the end; the root is ``scheme://authority``.

    For example, ``s3a://Bucket//t/%61`` becomes ``s3://bucket/t/a``. Schemes of the same store become one (s3a and s3n
    are s3, webhdfs is hdfs). In the authority, case, a user, a port of HDFS and the domain of an Azure account do not
    count; ``file://localhost`` is ``file://``. In the path, double slashes, ``.`` and ``..`` are resolved, then escapes
    except those of ``/`` and ``%``: Hive writes a value ``a/b`` as ``a%2Fb``, which is one name. Where engines differ
    (Hive takes an escape literally, Spark decodes it), this may merge two locations, never split one.

    Args:
        default: the default file system, for a location without scheme or authority.
        aliases: maps each name of an HDFS cluster to the one that stands for all of them (``map_aliases``).
    """
    scheme, authority, path = _split(location)
    if not scheme:
        scheme, authority, _ = _split(default)
    elif not authority and _split(default)[0] == scheme:
        authority = _split(default)[1]
    if scheme == "hdfs":
        authority = aliases.get(authority, aliases.get(ALL_OTHERS, authority))
    names: list[str] = []
    for name in path.split("/"):
        if name == "..":
            del names[-1:]
        elif name not in ("", "."):
            names.append(_decode(name))
    return "/".join([f"{scheme}://{authority}", *names])


def _split(location: str) -> tuple[str, str, str]:
    """Returns the scheme (empty if there is none), the authority and the path."""
    match = _SCHEME.fullmatch(location)
    if match is None:
        return "", "", location
    scheme, rest = match[1].lower(), match[2]
    scheme = _SAME_STORE.get(scheme, scheme)
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


def _decode(name: str) -> str:
    if "%" not in name:
        return name
    decoded = unquote(_LITERAL_ESCAPE.sub("%25", name))
    return name if decoded in (".", "..") or "/" in decoded else decoded


def is_inside(location: str, other: str) -> bool:
    """Returns true if the normalised ``location`` lies below ``other``."""
    return location.startswith(f"{other}/")


def find_covers(locations: Iterable[str]) -> list[str]:
    """Returns a few directories that contain all of these normalised locations, as deep as possible.

    Returns more than ``MOST_COVERS`` only if the locations lie in more clusters and buckets.
    """
    current = {_parent(location) for location in locations}
    while len(current) > MOST_COVERS:
        deepest = max(location.count("/") for location in current)
        raised = {_parent(location) if location.count("/") == deepest else location for location in current}
        if raised == current:
            break
        current = raised
    return sorted(location for location in current if not any(is_inside(location, other) for other in current))


def _parent(location: str) -> str:
    """Returns the directory above; a root is its own parent."""
    root, _, path = location.partition("://")
    authority, slash, names = path.partition("/")
    return "/".join([f"{root}://{authority}", *names.split("/")[:-1]]) if slash else location


def common_spelling(location: str) -> str:
    """Returns the part of a normalised location that its usual spellings share.

    That is the path in a cluster or on a machine, and bucket and path in an object store.
    """
    scheme, _, rest = location.partition("://")
    authority, slash, path = rest.partition("/")
    inside = f"/{path}" if slash else ""
    return inside if scheme in ("file", "hdfs") or "@" in authority else f"//{authority}{inside}"


def map_aliases(clusters: Mapping[str, Collection[str]]) -> dict[str, str]:
    """Maps every name of a cluster to one of them, for ``normalise_location``.

    Args:
        clusters: the addresses (``host:port``) of each cluster's NameNodes, by a name of the cluster. Names that share an
            address are one cluster. ``ALL_OTHERS`` stands for every other authority.
    """
    by_address: dict[str, str] = {}
    aliases: dict[str, str] = {}
    for name, addresses in clusters.items():
        own = name if name == ALL_OTHERS else _host("hdfs", name.lower())
        lowered = [address.lower() for address in addresses]
        representative = next((by_address[address] for address in lowered if address in by_address), own)
        by_address |= dict.fromkeys(lowered, representative)
        aliases |= {own: representative, **{_host("hdfs", address): representative for address in lowered}}
    return aliases

"""Finds tables and partitions whose directories overlap, and decides which are not compacted for that.

See PROTOCOL 11.13.

Two tables in one directory destroy each other. Their write IDs have the same numbers: cleaning after an aborted transaction
of one table removes committed deltas of the other, and a base of one makes the other's deltas obsolete.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from urllib.parse import unquote

_FEW = 3  #: others that a message names
Key = tuple[int, str | None]
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The directory of a table or partition, with its normalised location.

    ``metastore`` names the other metastore that it belongs to; None for this one.
    """

    table: int
    name: str
    location: str
    partition: str | None = None
    is_transactional: bool = False
    metastore: str | None = None

    @property
    def key(self) -> Key:
        return self.table, self.partition

    def __str__(self) -> str:
        name = self.name if self.partition is None else f"{self.name}/{self.partition}"
        return name if self.metastore is None else f"{name} of metastore {self.metastore}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlaps:
    """The overlaps of a metastore's locations, with a sentence for each.

    ``refused`` are tables (with all their partitions) and partitions that are not touched. ``warned`` are those in the
    directory of a plain table, which only its owner can judge.
    """

    refused: Mapping[Key, str] = field(default_factory=lambda: MappingProxyType({}))
    warned: Mapping[Key, str] = field(default_factory=lambda: MappingProxyType({}))

    def refusal(self, table: int, partition: str | None) -> str | None:
        """Returns why a table or partition is not touched; None if its directory belongs to it alone."""
        return self.refused.get((table, None)) or self.refused.get((table, partition))

    def refusal_anywhere(self, table: int) -> str | None:
        """Returns why a table or any of its partitions is not touched.

        Returns None if all their directories are its own.
        """
        return next((why for (refused, _), why in self.refused.items() if refused == table), None)

    def is_clear(self, table: int) -> bool:
        """Returns true if neither the table nor any of its partitions is refused."""
        return self.refusal_anywhere(table) is None


def find_overlaps(places: Iterable[Place]) -> Overlaps:
    """Returns the overlaps among ``places``.

    Two transactional tables at, above or below each other are both refused. Any place inside a transactional one refuses the
    outer one. A plain table's place at or above a transactional one only warns. A partition below its own table is normal;
    one inside another partition, or around its table, is not. A place of another metastore, which has other transactions,
    refuses any of ours at, around or inside it.
    """
    refused: dict[Place, list[Place]] = defaultdict(list)
    warned: dict[Place, list[Place]] = defaultdict(list)
    for outer, inner in overlapping_pairs(places):
        if outer.metastore != inner.metastore:
            for ours, other in ((outer, inner), (inner, outer)):
                if ours.metastore is None and ours.is_transactional:
                    refused[ours].append(other)
            continue
        if outer.metastore is not None:
            continue
        if outer.table == inner.table:
            for place, other in ((outer, inner), (inner, outer)):
                if place.is_transactional and place.partition is not None:
                    refused[place].append(other)
            continue
        is_same = outer.location == inner.location
        if outer.is_transactional and (inner.is_transactional or not is_same):
            refused[outer].append(inner)
        if inner.is_transactional:
            (refused if outer.is_transactional else warned)[inner].append(outer)
        elif is_same and outer.is_transactional:
            warned[outer].append(inner)
    return Overlaps(refused=_describe_all(refused), warned=_describe_all(warned))


def overlapping_pairs(places: Iterable[Place]) -> Iterator[tuple[Place, Place]]:
    """Yields each place with every other one at or inside it, except a table's own partitions below it."""
    around: list[Place] = []
    for place in sorted(places, key=lambda place: (f"{place.location}/", place.partition is not None, place.name)):
        while around and not _holds(around[-1], place):
            around.pop()
        for outer in around:
            if not _is_its_own(outer, place):
                yield outer, place
        around.append(place)


def is_overlapping(place: Place, other: Place) -> bool:
    """Returns true if ``place`` lies at, around or inside ``other``."""
    return _holds(place, other) or _holds(other, place)


def _holds(outer: Place, inner: Place) -> bool:
    return outer.location == inner.location or is_inside(inner.location, outer.location)


def _is_its_own(outer: Place, inner: Place) -> bool:
    return outer.table == inner.table and outer.partition is None and outer.location != inner.location


def _describe_all(overlaps: Mapping[Place, Sequence[Place]]) -> Mapping[Key, str]:
    return MappingProxyType({place.key: _describe_overlap(place, others) for place, others in overlaps.items()})


def _describe_overlap(place: Place, others: Sequence[Place]) -> str:
    listed = "; ".join(f"{other} {_describe_relation(place, other)} ({other.location})" for other in others[:_FEW])
    more = f"; and {len(others) - _FEW} more" if len(others) > _FEW else ""
    return (
        f"{place}: does not have its directory {place.location} to itself: {listed}{more}; tables in one directory destroy "
        "each other, so nothing is compacted or removed there; move one of them, or drop what is not needed"
    )


def _describe_relation(place: Place, other: Place) -> str:
    if place.location == other.location:
        return "lies there too"
    return "lies inside it" if is_inside(other.location, place.location) else "lies around it"


def normalise_location(
    location: str, default: str = "file:///", aliases: Mapping[str, str] = MappingProxyType({})
) -> str:
    """Returns ``scheme://authority/path`` without a slash at the end; the root is ``scheme://authority``.

    For example, ``s3a://Bucket//t/%61`` becomes ``s3://bucket/t/a``. Schemes of the same store become one (s3a and s3n
    are s3, webhdfs is hdfs). In the authority, case, a user, a port of HDFS and the domain of an Azure account do not
    count; ``file://localhost`` is ``file://``. In the path, double slashes, ``.`` and ``..`` are resolved, then escapes
    are decoded. Escaped ``/`` and ``%`` stay escaped, since Hive writes a value ``a/b`` as the one name ``a%2Fb``.
    Hive takes an escape literally and Spark decodes it, so this may merge two locations, but never splits one.

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

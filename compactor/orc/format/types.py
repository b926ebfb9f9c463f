"""ORC types: the flat tree of columns in a footer, with its parts and other forms."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, TypeVar, cast

from google.protobuf.message import DecodeError

from compactor.base.errors import BadFile
from compactor.orc.format import messages
from compactor.settings.file_limits import UNLIMITED, too_deep

ACID_FIELDS = ("operation", "originalTransaction", "bucket", "rowId", "currentTransaction", "row")


class TypeKind(enum.IntEnum):
    """The kinds of the ORC specification, by their numbers in the file."""

    __hash__ = int.__hash__  # the hash of an enumeration is computed from its name, in Python code

    BOOLEAN = 0
    BYTE = 1
    SHORT = 2
    INT = 3
    LONG = 4
    FLOAT = 5
    DOUBLE = 6
    STRING = 7
    BINARY = 8
    TIMESTAMP = 9
    LIST = 10
    MAP = 11
    STRUCT = 12
    UNION = 13
    DECIMAL = 14
    DATE = 15
    VARCHAR = 16
    CHAR = 17
    TIMESTAMP_INSTANT = 18


_ACID_FIELDS_LOWER = tuple(name.lower() for name in ACID_FIELDS)
ACID_KINDS = (TypeKind.INT, TypeKind.LONG, TypeKind.INT, TypeKind.LONG, TypeKind.LONG, TypeKind.STRUCT)
MAX_PRECISION = 38  #: digits of a decimal
TEXT_KINDS = frozenset({TypeKind.STRING, TypeKind.VARCHAR, TypeKind.CHAR})
CALENDAR_KINDS = frozenset({TypeKind.DATE, TypeKind.TIMESTAMP, TypeKind.TIMESTAMP_INSTANT})
INTEGERS = frozenset({TypeKind.BYTE, TypeKind.SHORT, TypeKind.INT, TypeKind.LONG})


@dataclass(frozen=True, slots=True, kw_only=True)
class OrcType:
    """One column of a footer.

    ``children`` are column ids: indexes into the same tuple of types (pre-order).
    """

    kind: TypeKind
    children: tuple[int, ...] = ()
    field_names: tuple[str, ...] = ()
    maximum_length: int = 0  #: of char and varchar, in characters
    precision: int = 0
    scale: int = 0
    attributes: tuple[tuple[bytes, bytes], ...] = ()


class Types(tuple[OrcType, ...]):
    """All columns of a footer in pre-order, the root first.

    Derived values are computed once and cached. The files of a table share one object, so comparing them is quick.
    """

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return super().__hash__()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles without the cached values: hashes differ between processes."""
        return Types, (tuple(self),)

    @cached_property
    def is_acid(self) -> bool:
        """True if the root is the ACID event struct: six names in any case, by position, and their kinds.

        Hive's query compactor and other writers use lower case.
        """
        root = self[0]
        if tuple(name.lower() for name in root.field_names) != _ACID_FIELDS_LOWER:
            return False
        return tuple(self[child].kind for child in root.children) == ACID_KINDS

    @cached_property
    def keys(self) -> tuple[int, ...]:
        """The columns before ``row`` in an ACID file, which hold its rows' keys."""
        return self[0].children[:5]

    @cached_property
    def row(self) -> Types:
        """The struct of the user's columns: the field ``row`` of an ACID file, the root of any other file."""
        return subtree(self, self[0].children[-1]) if self.is_acid else self

    @cached_property
    def calendar_columns(self) -> tuple[int, ...]:
        """The columns that depend on a calendar."""
        return tuple(number for number, item in enumerate(self) if item.kind in CALENDAR_KINDS)

    @cached_property
    def has_timestamps(self) -> bool:
        """True if some column holds timestamps."""
        return any(item.kind in (TypeKind.TIMESTAMP, TypeKind.TIMESTAMP_INSTANT) for item in self)

    @cached_property
    def has_zoned_times(self) -> bool:
        """True if some column holds timestamps in the writer's zone.

        Those with a local time zone count in UTC.
        """
        return any(item.kind is TypeKind.TIMESTAMP for item in self)

    @cached_property
    def text_columns(self) -> tuple[int, ...]:
        """The columns of text."""
        return tuple(number for number, item in enumerate(self) if item.kind in TEXT_KINDS)

    @cached_property
    def binary_columns(self) -> tuple[int, ...]:
        """The columns of bytes."""
        return tuple(number for number, item in enumerate(self) if item.kind is TypeKind.BINARY)

    @cached_property
    def is_encodable(self) -> bool:
        """True if Arrow has an equal type for every column, and can hold its rows without loss.

        Unions would lose their tags, and decimals without precision (Hive 0.11) their scale. Timestamps are judged by
        their values.
        """
        return all(
            item.kind is not TypeKind.UNION
            and (item.kind is not TypeKind.DECIMAL or 1 <= item.precision <= MAX_PRECISION)
            for item in self
        )

    @cached_property
    def shape(self) -> Types:
        """The types without properties that readers ignore: attributes, other kinds' parameters, column names.

        Fields of structs *inside* a column keep their names, in lower case: Hive finds those by name (ORC's
        SchemaEvolution goes by position only at the outermost levels).
        """
        outer = by_position(self)
        return Types(
            OrcType(
                kind=item.kind,
                children=item.children,
                field_names=() if number in outer else tuple(name.lower() for name in item.field_names),
                maximum_length=item.maximum_length if item.kind in (TypeKind.CHAR, TypeKind.VARCHAR) else 0,
                precision=item.precision if item.kind is TypeKind.DECIMAL else 0,
                scale=item.scale if item.kind is TypeKind.DECIMAL else 0,
            )
            for number, item in enumerate(self)
        )

    @cached_property
    def for_encoders(self) -> Types:
        """The types for decoders and encoders: every text is a string, and fields are named by their position.

        Texts have the same bytes in a stripe as strings, but a char encoder would pad or cut them. A file may have any names
        of fields.
        """
        return Types(
            replace(
                item,
                kind=TypeKind.STRING if item.kind in TEXT_KINDS else item.kind,
                field_names=tuple(f"f{place}" for place in range(len(item.field_names))),
                maximum_length=0,
                attributes=(),
            )
            for item in self
        )

    @cached_property
    def depth(self) -> int:
        """The number of nested levels, including the root."""
        depths = [1] * len(self)
        for number, item in enumerate(self):  # children come after their parents
            for child in item.children:
                depths[child] = depths[number] + 1
        return max(depths)

    @cached_property
    def messages(self) -> tuple[bytes, ...]:
        """The types as serialized messages of a footer."""
        return tuple(_to_message(item).SerializeToString() for item in self)


MAX_CACHED = 256  #: of the types that each cache holds
MAX_CACHED_COLUMNS = 200_000  #: of all types together; a column takes some kilobytes in all caches


def from_messages(items: Sequence[bytes], name: str, depth: int = UNLIMITED.depth) -> Types:
    """Returns the types of a footer.

    ``name`` is the file's, for the error; ``depth`` is the most levels it may have.

    Raises:
        BadFile: a kind is unknown, the columns do not form one tree in pre-order, or it is too deep.
    """
    key = tuple(items)
    known = _KNOWN.get(key)
    types = known or _parse_types(key, name)
    if types.depth > depth:
        raise too_deep(name, types.depth, depth)
    if known is not None:
        return known
    if len(_KNOWN) >= MAX_CACHED or sum(map(len, list(_KNOWN))) + len(types) > MAX_CACHED_COLUMNS:
        forget_types()
    known = _KNOWN[key] = interned(types)
    return known


def forget_types() -> None:
    """Empties every cache of types, so that they do not grow without bound."""
    _KNOWN.clear()
    for clear in _CLEAR:
        clear()


_Cached = TypeVar("_Cached", bound=Callable[..., Any])


def cached_with_types(function: _Cached) -> _Cached:
    """Caches results that belong to types, until types are forgotten."""
    cached = lru_cache(maxsize=MAX_CACHED)(function)
    _CLEAR.append(cached.cache_clear)
    return cast(_Cached, cached)


_CLEAR: list[Callable[[], None]] = []


@cached_with_types
def interned(types: Types) -> Types:
    """Returns the shared object for equal types."""
    return types


#: Types by their bytes.
_KNOWN: dict[tuple[bytes, ...], Types] = {}


def _parse_types(items: Sequence[bytes], name: str) -> Types:
    try:
        types = Types(_from_message(messages.Type.FromString(item), name, len(items)) for item in items)
    except DecodeError as error:
        raise BadFile(f"file {name}: its types cannot be read ({error}); the footer is damaged") from error
    # each column has one parent, which precedes it; otherwise a walk could take too long
    inside = [child for item in types for child in item.children]
    is_tree = sorted(inside) == list(range(1, len(types))) and all(
        child > number for number, item in enumerate(types) for child in item.children
    )
    if not types or not is_tree or list(_walk(types)) != list(range(len(types))):
        raise BadFile(f"file {name}: its {len(types)} types are not one tree of columns; the footer is damaged")
    for number, item in enumerate(types):
        child_count = {TypeKind.LIST: 1, TypeKind.MAP: 2, TypeKind.STRUCT: len(item.field_names)}.get(item.kind)
        if item.kind is TypeKind.UNION:
            child_count = max(1, len(item.children))
        if len(item.children) != (child_count or 0):
            raise BadFile(f"file {name}: column {number} ({item.kind.name}) has {len(item.children)} children")
        if item.kind is TypeKind.DECIMAL and not max(1, item.scale) <= item.precision <= MAX_PRECISION:
            raise BadFile(
                f"file {name}: column {number} is decimal({item.precision},{item.scale}), expected 1..{MAX_PRECISION} "
                "digits and no more than these after the point; its footer is damaged, or older than Hive 0.13"
            )
    return types


def _from_message(item: messages.Message, name: str, columns: int) -> OrcType:
    if len(item.subtypes) >= columns:
        raise BadFile(f"file {name}: one of its {columns} types has {len(item.subtypes)} inside; the footer is damaged")
    try:
        kind = TypeKind(item.kind)
    except ValueError as error:
        raise BadFile(
            f"file {name}: type kind {item.kind} is unknown, 0..{max(TypeKind)} are known; it cannot be compacted"
        ) from error
    # Trino also names the content of an array or map ("item", "key", "value")
    names = item.field_names if kind is TypeKind.STRUCT else ()
    return OrcType(
        kind=kind,
        children=tuple(item.subtypes),
        field_names=tuple(field.decode("utf-8", "surrogateescape") for field in names),
        maximum_length=item.maximum_length,
        precision=item.precision,
        scale=item.scale,
        attributes=tuple((pair.key, pair.value) for pair in item.attributes),
    )


def _to_message(item: OrcType) -> messages.Message:
    message = messages.Type(
        kind=item.kind,
        subtypes=item.children,
        field_names=[field.encode("utf-8", "surrogateescape") for field in item.field_names],
    )
    if item.kind in (TypeKind.CHAR, TypeKind.VARCHAR):
        message.maximum_length = item.maximum_length
    if item.kind is TypeKind.DECIMAL:
        message.precision, message.scale = item.precision, item.scale
    for key, value in item.attributes:
        message.attributes.add(key=key, value=value)
    return message


def _walk(types: Types, root: int = 0) -> Iterator[int]:
    """Yields column ids in pre-order; stops early at a broken tree, so that it always ends."""
    waiting = [root]
    for _ in range(len(types) + 1):
        if not waiting:
            return
        column = waiting.pop()
        yield column
        if column >= len(types):
            return
        waiting.extend(reversed(types[column].children))


@cached_with_types
def subtree(types: Types, root: int) -> Types:
    """Returns the column ``root`` and all columns below it as a separate tree, with ids from 0."""
    ids = list(_walk(types, root))
    return Types(replace(types[i], children=tuple(child - root for child in types[i].children)) for i in ids)


def struct_of(fields: Sequence[tuple[str, Types]]) -> Types:
    """Returns the struct of ``fields``, given by name and type tree."""
    parts: list[OrcType] = []
    children = []
    for _, tree in fields:
        start = 1 + len(parts)
        children.append(start)
        parts.extend(replace(item, children=tuple(child + start for child in item.children)) for item in tree)
    root = OrcType(kind=TypeKind.STRUCT, children=tuple(children), field_names=tuple(name for name, _ in fields))
    return Types((root, *parts))


@cached_with_types
def acid_types(row: Types) -> Types:
    """Returns the types of an ACID file with rows of the struct ``row``, interned."""
    keys = [(name, Types((OrcType(kind=kind),))) for name, kind in zip(ACID_FIELDS, ACID_KINDS, strict=True)]
    return interned(struct_of([*keys[:-1], ("row", row)]))


def same_shape(a: Types, b: Types) -> bool:
    """Returns true if two trees have the same shape."""
    return a is b or a == b or a.shape == b.shape


def by_position(types: Types) -> frozenset[int]:
    """Returns the structs in which readers find fields by position: the root, and an ACID file's ``row``."""
    return frozenset({0, types[0].children[-1]}) if types.is_acid else frozenset({0})

"""ORC types: the flat tree of a footer, its text, Hive's text for it, and what changes without loss to what."""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from typing import Any, NoReturn, TypeAlias, TypeVar

import pyarrow as pa
from google.protobuf.message import DecodeError

from compactor.errors import BadFile, NotLossless
from compactor.orc.format import messages

ACID_FIELDS = ("operation", "originalTransaction", "bucket", "rowId", "currentTransaction", "row")


class TypeKind(enum.IntEnum):
    """The kinds of the ORC specification, by their numbers in the file."""

    __hash__ = int.__hash__  # an enumeration's goes by the name, in Python

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
_DIGITS = {
    TypeKind.BYTE: 3,
    TypeKind.SHORT: 5,
    TypeKind.INT: 10,
    TypeKind.LONG: 19,
}  #: of the largest value, without sign
_NAMES = {
    TypeKind.BOOLEAN: "boolean",
    TypeKind.BYTE: "tinyint",
    TypeKind.SHORT: "smallint",
    TypeKind.INT: "int",
    TypeKind.LONG: "bigint",
    TypeKind.FLOAT: "float",
    TypeKind.DOUBLE: "double",
    TypeKind.STRING: "string",
    TypeKind.BINARY: "binary",
    TypeKind.TIMESTAMP: "timestamp",
    TypeKind.LIST: "array",
    TypeKind.MAP: "map",
    TypeKind.STRUCT: "struct",
    TypeKind.UNION: "uniontype",
    TypeKind.DECIMAL: "decimal",
    TypeKind.DATE: "date",
    TypeKind.VARCHAR: "varchar",
    TypeKind.CHAR: "char",
    TypeKind.TIMESTAMP_INSTANT: "timestamp with local time zone",
}
_KINDS = {name: kind for kind, name in _NAMES.items()} | {"integer": TypeKind.INT, "double precision": TypeKind.DOUBLE}


@dataclass(frozen=True, slots=True, kw_only=True)
class OrcType:
    """One column of a footer. ``children`` are column ids: places in the same tuple of types (pre-order)."""

    kind: TypeKind
    children: tuple[int, ...] = ()
    field_names: tuple[str, ...] = ()
    maximum_length: int = 0  #: of char and varchar, in characters
    precision: int = 0
    scale: int = 0
    attributes: tuple[tuple[bytes, bytes], ...] = ()


class Types(tuple[OrcType, ...]):
    """All columns of a footer in pre-order, the root first. What follows from them is worked out once and kept with them;
    the files of a table have the same object, and what is the same object is compared at once."""

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return super().__hash__()

    def __reduce__(self) -> tuple[Any, ...]:
        """Without what is kept: a hash is another one in another process."""
        return Types, (tuple(self),)

    @cached_property
    def is_acid(self) -> bool:
        """Whether the root is the ACID event struct: six names in any case, by position (Hive's query compactor and
        foreign writers use lower case), and their kinds."""
        root = self[0]
        if tuple(name.lower() for name in root.field_names) != _ACID_FIELDS_LOWER:
            return False
        return tuple(self[child].kind for child in root.children) == ACID_KINDS

    @cached_property
    def row(self) -> Types:
        """The struct of the user's columns: of an ACID file its field ``row``, of any other file all of it."""
        return subtree(self, self[0].children[-1]) if self.is_acid else self

    @cached_property
    def dated(self) -> tuple[int, ...]:
        """The columns that depend on a calendar."""
        return tuple(number for number, item in enumerate(self) if item.kind in CALENDAR_KINDS)

    @cached_property
    def texts(self) -> tuple[int, ...]:
        """The columns whose values are text."""
        return tuple(number for number, item in enumerate(self) if item.kind in TEXT_KINDS)

    @cached_property
    def binaries(self) -> tuple[int, ...]:
        """The columns whose values are bytes."""
        return tuple(number for number, item in enumerate(self) if item.kind is TypeKind.BINARY)

    @cached_property
    def is_encodable(self) -> bool:
        """Whether rows can be decoded and encoded without loss: unions lose their tags, and decimals without precision
        (Hive 0.11) their scale. Arrow has an equal type for every column then; timestamps are judged by their values."""
        return all(
            item.kind is not TypeKind.UNION
            and (item.kind is not TypeKind.DECIMAL or 1 <= item.precision <= MAX_PRECISION)
            for item in self
        )

    @cached_property
    def shape(self) -> Types:
        """Without what readers do not go by: attributes, parameters that the kind has not, names of columns.

        Fields of structs *inside* a column keep their names, in lower case: Hive finds those by name (ORC's
        SchemaEvolution goes by position for the outermost levels only).
        """
        outer = _by_position(self)
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
        """As decoders and encoders are told them: every text is a string, since its bytes in a stripe are the same (a char
        encoder would pad or cut), and fields have their place as name, since any name is legal in a file."""
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
    def messages(self) -> tuple[bytes, ...]:
        """The footer's form."""
        return tuple(_to_message(item).SerializeToString() for item in self)


T = TypeVar("T")
_MOST_KNOWN = 256  #: of each kind of knowledge
#: Arrow's types and arrays are of many classes that are told apart at run time only.
ArrowType: TypeAlias = Any
Array: TypeAlias = Any


def from_messages(items: Sequence[bytes], name: str) -> Types:
    """The types of a footer; ``name`` is the file's, for the error.

    Raises:
        BadFile: a kind is unknown, or the columns do not form one tree in pre-order.
    """
    key = tuple(items)
    known = _KNOWN.get(key)
    if known is None:
        known = interned(_checked(key, name))
        if len(_KNOWN) >= _MOST_KNOWN:
            _KNOWN.clear()
        _KNOWN[key] = known
    return known


@lru_cache(maxsize=_MOST_KNOWN)
def interned(types: Types) -> Types:
    """The object that others have who know equal types."""
    return types


#: Types by their bytes.
_KNOWN: dict[tuple[bytes, ...], Types] = {}


def _checked(items: Sequence[bytes], name: str) -> Types:
    try:
        types = Types(_from_message(messages.Type.FromString(item), name) for item in items)
    except DecodeError as error:
        raise BadFile(f"file {name}: its types cannot be read ({error}); the footer is damaged") from error
    if not types or list(_walk(types)) != list(range(len(types))):
        raise BadFile(f"file {name}: its {len(types)} types are not one tree of columns; the footer is damaged")
    for number, item in enumerate(types):
        wanted = {TypeKind.LIST: 1, TypeKind.MAP: 2, TypeKind.STRUCT: len(item.field_names)}.get(item.kind)
        if item.kind is TypeKind.UNION:
            wanted = max(1, len(item.children))
        if len(item.children) != (wanted or 0):
            raise BadFile(f"file {name}: column {number} ({item.kind.name}) has {len(item.children)} children")
        if item.kind is TypeKind.DECIMAL and not max(1, item.scale) <= item.precision <= MAX_PRECISION:
            raise BadFile(
                f"file {name}: column {number} is decimal({item.precision},{item.scale}), 1..{MAX_PRECISION} digits and no "
                "more after the point were wanted; its footer is damaged, or older than Hive 0.13"
            )
    return types


def _from_message(item: messages.Message, name: str) -> OrcType:
    try:
        kind = TypeKind(item.kind)
    except ValueError as error:
        raise BadFile(
            f"file {name}: type kind {item.kind} is unknown, 0..{max(TypeKind)} are known; it cannot be compacted"
        ) from error
    return OrcType(
        kind=kind,
        children=tuple(item.subtypes),
        field_names=tuple(field.decode("utf-8", "surrogateescape") for field in item.field_names),
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
    """Column ids in pre-order; ends early where a tree is broken, so that it always ends."""
    waiting = [root]
    for _ in range(len(types) + 1):
        if not waiting:
            return
        column = waiting.pop()
        yield column
        if column >= len(types):
            return
        waiting.extend(reversed(types[column].children))


@lru_cache(maxsize=_MOST_KNOWN)
def subtree(types: Types, root: int) -> Types:
    """The column ``root`` and all below it, as a tree of its own with ids from 0."""
    ids = list(_walk(types, root))
    return Types(replace(types[i], children=tuple(child - root for child in types[i].children)) for i in ids)


def struct_of(fields: Sequence[tuple[str, Types]]) -> Types:
    """The struct of ``fields``: name and type tree of each."""
    parts: list[OrcType] = []
    children = []
    for _, tree in fields:
        start = 1 + len(parts)
        children.append(start)
        parts.extend(replace(item, children=tuple(child + start for child in item.children)) for item in tree)
    root = OrcType(kind=TypeKind.STRUCT, children=tuple(children), field_names=tuple(name for name, _ in fields))
    return Types((root, *parts))


@lru_cache(maxsize=_MOST_KNOWN)
def acid_types(row: Types) -> Types:
    """The types of an ACID file whose rows are of the struct ``row``, interned."""
    keys = [(name, Types((OrcType(kind=kind),))) for name, kind in zip(ACID_FIELDS, ACID_KINDS, strict=True)]
    return interned(struct_of([*keys[:-1], ("row", row)]))


def same(a: Types, b: Types) -> bool:
    """Whether two trees have one shape."""
    return a is b or a == b or a.shape == b.shape


def _by_position(types: Types) -> frozenset[int]:
    """The structs whose fields readers find by position: the root, and an ACID file's ``row``."""
    return frozenset({0, types[0].children[-1]}) if types.is_acid else frozenset({0})


def widens(old: Types, new: Types) -> bool:
    """Whether every value of ``old`` is a value of ``new`` that readers show alike.

    Columns go by position and trailing ones may be missing in ``old`` (they read as NULL), as in Hive's ORC schema
    evolution; so do fields of structs inside a column if their names agree. Integers and floating point grow, decimals
    keep all digits, texts keep their length; an integer becomes text, a decimal or floating point where each of its
    values has exactly one form there. Not so what readers spell differently: floating point, decimals, booleans, dates
    and timestamps as text, a date as a timestamp, a char (padded or not) as text.
    """
    return old.is_acid == new.is_acid and _widens(old, 0, new, 0, _by_position(old))


def _widens(old: Types, i: int, new: Types, j: int, outer: frozenset[int]) -> bool:
    a, b = old[i], new[j]
    if a.kind is TypeKind.STRUCT and b.kind is TypeKind.STRUCT:
        names = [[name.lower() for name in item.field_names[: len(a.children)]] for item in (a, b)]
        if len(a.children) > len(b.children) or (i not in outer and names[0] != names[1]):
            return False
    if a.children or a.kind is TypeKind.STRUCT:
        fits = a.kind is b.kind and (a.kind is TypeKind.STRUCT or len(a.children) == len(b.children))
        return fits and all(_widens(old, x, new, y, outer) for x, y in zip(a.children, b.children, strict=False))
    return leaf_widens(a, b)


def leaf_widens(a: OrcType, b: OrcType) -> bool:
    """As ``widens``, of one column without children."""
    if a.kind in INTEGERS and b.kind is not a.kind:
        return _integer_widens(a, b)
    if a.kind is TypeKind.DECIMAL and b.kind is TypeKind.DECIMAL:
        return a.scale <= b.scale and a.precision - a.scale <= b.precision - b.scale
    if a.kind is TypeKind.VARCHAR:
        return b.kind is TypeKind.STRING or (b.kind is TypeKind.VARCHAR and a.maximum_length <= b.maximum_length)
    if a.kind is TypeKind.CHAR:
        return b.kind is TypeKind.CHAR and a.maximum_length <= b.maximum_length
    return a.kind is b.kind or (a.kind is TypeKind.FLOAT and b.kind is TypeKind.DOUBLE)


def _integer_widens(a: OrcType, b: OrcType) -> bool:
    digits = _DIGITS[a.kind]
    if b.kind is TypeKind.STRING:
        return True
    if b.kind is TypeKind.VARCHAR:
        return digits + 1 <= b.maximum_length
    if b.kind is TypeKind.DECIMAL:
        return digits <= b.precision - b.scale
    if b.kind in (TypeKind.FLOAT, TypeKind.DOUBLE):
        return digits <= (5 if b.kind is TypeKind.FLOAT else 10)  # 24 and 53 bits of mantissa
    return b.kind in INTEGERS and a.kind <= b.kind


def schema_text(types: Types, root: int = 0) -> str:
    """``types`` in Hive's words, such as ``struct<a:int,b:varchar(20)>``."""
    item = types[root]
    name = _NAMES[item.kind]
    parts = [schema_text(types, child) for child in item.children]
    if item.kind is TypeKind.STRUCT:
        parts = [f"{valid_name(field)}:{part}" for field, part in zip(item.field_names, parts, strict=True)]
    if item.kind in (TypeKind.LIST, TypeKind.MAP, TypeKind.STRUCT, TypeKind.UNION):
        return f"{name}<{','.join(parts)}>"
    if item.kind is TypeKind.DECIMAL:
        return f"{name}({item.precision},{item.scale})"
    return f"{name}({item.maximum_length})" if item.kind in (TypeKind.CHAR, TypeKind.VARCHAR) else name


@lru_cache(maxsize=_MOST_KNOWN)
def parse_hive_type(text: str) -> Types:
    """The type tree of Hive's type text. A bare ``decimal`` is ``decimal(10,0)``, as in Hive.

    Raises:
        NotLossless: ``text`` is not the type text of something that ORC can hold.
    """
    parser = _Parser(text)
    tree = parser.type()
    if parser.place != len(text):
        parser.fail("the end of the text")
    return tree


class _Parser:
    _WORD = re.compile(r"[a-z]+(?: [a-z]+)*", re.IGNORECASE)
    _QUOTED = re.compile(r"`((?:[^`]|``)*)`")
    _PLAIN = re.compile(r"[^:<>,`]+")
    _NUMBERS = re.compile(r"\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\)")

    def __init__(self, text: str) -> None:
        self.text = text
        self.place = 0

    def fail(self, wanted: str) -> NoReturn:
        raise NotLossless(
            f"type {self.text!r}: at position {self.place}, expected {wanted}; ORC cannot hold this type, "
            "or the text of the metastore is damaged"
        )

    def type(self) -> Types:
        match = self._WORD.match(self.text, self.place)
        kind = _KINDS.get(match.group().lower()) if match else None
        if match is None or kind is None:
            self.fail("the name of a type")
        self.place = match.end()
        if kind is TypeKind.STRUCT:
            return struct_of(self._list(self._field))
        if kind in (TypeKind.LIST, TypeKind.MAP, TypeKind.UNION):
            return self._compound(kind)
        return Types((self._with_numbers(kind),))

    def _compound(self, kind: TypeKind) -> Types:
        trees = self._list(self.type)
        if (kind is TypeKind.LIST and len(trees) != 1) or (kind is TypeKind.MAP and len(trees) != 2) or not trees:
            self.fail(f"another number of types in {_NAMES[kind]}")
        root, *rest = struct_of([("", tree) for tree in trees])
        return Types((replace(root, kind=kind, field_names=()), *rest))

    def _with_numbers(self, kind: TypeKind) -> OrcType:
        match = self._NUMBERS.match(self.text, self.place)
        if match:
            self.place = match.end()
        first, second = (int(part or 0) for part in match.groups()) if match else (0, 0)
        if kind is TypeKind.DECIMAL:
            return OrcType(kind=kind, precision=first if match else 10, scale=second)
        if kind in (TypeKind.CHAR, TypeKind.VARCHAR):
            if not first:
                self.fail("a length in parentheses")
            return OrcType(kind=kind, maximum_length=first)
        return OrcType(kind=kind)

    def _field(self) -> tuple[str, Types]:
        if match := self._QUOTED.match(self.text, self.place):
            name = match.group(1).replace("``", "`")
        elif match := self._PLAIN.match(self.text, self.place):
            name = match.group()
        else:
            self.fail("the name of a field")
        self.place = match.end()
        self._take(":")
        return name, self.type()

    def _list(self, part: Callable[[], T]) -> list[T]:
        self._take("<")
        items: list[T] = []
        while not self.text.startswith(">", self.place):
            if items:
                self._take(",")
            items.append(part())
        self.place += 1
        return items

    def _take(self, mark: str) -> None:
        if not self.text.startswith(mark, self.place):
            self.fail(repr(mark))
        self.place += len(mark)


def valid_name(name: str) -> str:
    """A field's name as Arrow, logs and databases take it: bytes that are no UTF-8 become U+FFFD. Rows go by position."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def arrow_type(types: Types, root: int = 0, *, timestamp: ArrowType | None = None) -> ArrowType:
    """The Arrow type in which rows of column ``root`` are held: char and varchar as string, timestamps in ns, or as
    ``timestamp``.

    Raises:
        NotLossless: Arrow has no equal type (unions, decimals without precision).
    """
    item = types[root]
    below = partial(arrow_type, types, timestamp=timestamp)
    if timestamp is not None and item.kind in (TypeKind.TIMESTAMP, TypeKind.TIMESTAMP_INSTANT):
        return timestamp
    if item.kind in _ARROW:
        return _ARROW[item.kind]
    if item.kind is TypeKind.DECIMAL and 1 <= item.precision <= 38:
        return pa.decimal128(item.precision, item.scale)
    if item.kind is TypeKind.LIST:
        return pa.list_(below(item.children[0]))
    if item.kind is TypeKind.MAP:
        return pa.map_(below(item.children[0]), below(item.children[1]))
    if item.kind is TypeKind.STRUCT:
        return pa.struct(
            [
                pa.field(valid_name(name), below(child))
                for name, child in zip(item.field_names, item.children, strict=True)
            ]
        )
    raise NotLossless(f"column {root} of {schema_text(types)}: Arrow has no type equal to {schema_text(types, root)}")


_ARROW: dict[TypeKind, ArrowType] = {
    TypeKind.BOOLEAN: pa.bool_(),
    TypeKind.BYTE: pa.int8(),
    TypeKind.SHORT: pa.int16(),
    TypeKind.INT: pa.int32(),
    TypeKind.LONG: pa.int64(),
    TypeKind.FLOAT: pa.float32(),
    TypeKind.DOUBLE: pa.float64(),
    TypeKind.STRING: pa.string(),
    TypeKind.VARCHAR: pa.string(),
    TypeKind.CHAR: pa.string(),
    TypeKind.BINARY: pa.binary(),
    TypeKind.TIMESTAMP: pa.timestamp("ns"),
    TypeKind.TIMESTAMP_INSTANT: pa.timestamp("ns", tz="UTC"),
    TypeKind.DATE: pa.date32(),
}

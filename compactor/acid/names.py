"""Parses and formats names inside a transactional table: directories, files, names that readers skip.

Pure: strings in, values out. The forms are those of Hive's ``AcidUtils`` and ``AcidConstants``.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass
from functools import lru_cache

from compactor.base.errors import BadName
from compactor.base.ids import NOTHING_OPEN, ORIGINALS_ONLY, TxnId, WriteId

ACID_VERSION_FILE = "_orc_acid_version"  #: side file of every base and delta; its content is ``ACID_VERSION``
ACID_VERSION = b"2"
METADATA_FILE = "_metadata_acid"  #: JSON in the bases that TRUNCATE (Hive 4) and Hive 3's major compaction write
METADATA_COMPACTED = b'{"thisFileVersion":"0","dataFormat":"compacted"}'  #: as Hive 3.1's major compaction writes it
BASE_PREFIX = "base_"
FLUSH_LENGTH_SUFFIX = "_flush_length"  #: side file of a streaming ``bucket_N``: its logical length
#: Names of ours begin with a dot, since Impala reads the files in a directory that begins with ``_``
#: (``AcidUtils.filterFilesForAcidState``, and ``ignored_dir_prefix_list`` of its catalogd). This is the working directory,
#: followed by the compaction transaction's id and letters that nobody can foretell.
STAGING_PREFIX = ".compactor_v"
WRITING_PREFIX = ".compactor_w"
HIDDEN_PREFIX = ".compactor_obsolete_"  #: followed by a transaction and the final name of what is being removed
QUARANTINE_PREFIX = ".compactor_quarantine_"  #: followed by an entry's id
CLAIM_PREFIX = ".compactor_claim_"  #: followed by a metastore's token and a table's id; an ordinary file
SET_ASIDE_PREFIX = ".compactor_in_doubt_"  #: followed by a time and the former name of what a person has set aside


class Layout(enum.Enum):
    """The naming and marking of a compaction's output, by the version of Hive that reads it."""

    VISIBILITY = "Hive 4"  #: ``_v<txn>`` at the end of the name: counts once that transaction is valid
    PLAIN = "Hive 3.1"  #: no suffix, which Hive 3 rejects: counts as soon as it exists; bases have ``_metadata_acid``
    VERSION_1 = "Hive 2"  #: no suffix, no side file, plain bucket numbers in rows: ACID version 1

    @property
    def has_visibility(self) -> bool:
        return self is Layout.VISIBILITY


class DeltaKind(enum.Enum):
    INSERT = "delta"
    DELETE = "delete_delta"


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """All rows up to ``write_id``.

    ``visibility_txn_id`` is the compaction's transaction, 0 for INSERT OVERWRITE.
    """

    write_id: WriteId
    visibility_txn_id: TxnId = TxnId(0)

    @property
    def highest_write_id(self) -> WriteId:
        """The highest write ID in the name."""
        return self.write_id

    @property
    def name(self) -> str:
        number = str(self.write_id) if self.write_id == ORIGINALS_ONLY else f"{self.write_id:07d}"
        return f"base_{number}{_visibility(self.visibility_txn_id)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Delta:
    """Write IDs ``min_write_id..max_write_id``, both inclusive, as one directory.

    ``statement_id`` is None once a minor compaction has merged the statements; ``visibility_txn_id`` is the
    compaction's transaction, 0 for a user's write.
    """

    kind: DeltaKind
    min_write_id: WriteId
    max_write_id: WriteId
    statement_id: int | None = None
    visibility_txn_id: TxnId = TxnId(0)

    def __post_init__(self) -> None:
        if self.min_write_id > self.max_write_id:
            raise BadName(
                f"{self.kind.value} of write IDs {self.min_write_id}..{self.max_write_id}: the first is larger than "
                "the last; no writer names a directory like this, move it away"
            )

    @property
    def highest_write_id(self) -> WriteId:
        """The highest write ID in the name."""
        return self.max_write_id

    @property
    def name(self) -> str:
        statement = "" if self.statement_id is None else f"_{self.statement_id:04d}"
        return (
            f"{self.kind.value}_{self.min_write_id:07d}_{self.max_write_id:07d}{statement}"
            f"{_visibility(self.visibility_txn_id)}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketFile:
    """``bucket_00003`` or, from all DML of Hive 4, ``bucket_00003_0``: ACID rows of file number 3."""

    number: int
    attempt: int | None = None

    @property
    def name(self) -> str:
        return f"bucket_{self.number:05d}" + ("" if self.attempt is None else f"_{self.attempt}")


@dataclass(frozen=True, slots=True, kw_only=True)
class OriginalFile:
    """``000003_0`` or ``000003_0_copy_1``: rows without ACID columns that belong to file number 3."""

    number: int
    name: str


def original_name(number: int, copy: int = 0) -> str:
    """Returns ``000003_0``, or ``000003_0_copy_1`` for one more file of that number."""
    return f"{number:06d}_0" + (f"_copy_{copy}" if copy else "")


def _visibility(txn: TxnId) -> str:
    return f"_v{txn:07d}" if txn else ""


_BASE = re.compile(rf"base_({ORIGINALS_ONLY}|[0-9]+)(?:_v([0-9]+))?")
_DELTA = re.compile(r"(delta|delete_delta)_([0-9]+)_([0-9]+)(?:_([0-9]+))?(?:_v([0-9]+))?")
_BUCKET = re.compile(r"bucket_([0-9]+)(?:_([0-9]+))?")
_ORIGINAL = re.compile(r"([0-9]+)_[0-9]+(?:_copy_[0-9]+)?")
_SKIPPED = ("_", ".", "-tmp.")  #: beginnings of the names that readers skip
_SKIPPED_BELOW = re.compile("/(?:" + "|".join(map(re.escape, _SKIPPED)) + ")")
_NUMBERS = re.compile(r"(?<!-)[0-9]+")
_NAMES_KEPT = 8192  #: worthwhile since the partitions of a table repeat each other's names
_ACID_PREFIXES = (BASE_PREFIX, "delta_", "delete_delta_")
_STAGING = re.compile(f"(?:{re.escape(STAGING_PREFIX)}|{re.escape(WRITING_PREFIX)})" + r"([0-9]+)(?:_[0-9a-f]+)?")
_HIDDEN = re.compile(re.escape(HIDDEN_PREFIX) + r"([0-9]+)_(.+)")
_CLAIM = re.compile(re.escape(CLAIM_PREFIX) + r"([0-9a-f]{32})_([0-9]+)")
_QUARANTINE = re.compile(re.escape(QUARANTINE_PREFIX) + r"([0-9]+)(_erased)?")


@lru_cache(maxsize=_NAMES_KEPT)
def parse_directory(name: str) -> Base | Delta | None:
    """Returns the base or delta of this name; None if it is not the name of an ACID directory at all.

    Raises:
        BadName: ``name`` begins like that of an ACID directory but isn't one, or a number does not fit into 63 bits.
    """
    fits = all(int(number) <= NOTHING_OPEN for number in _NUMBERS.findall(name))
    if fits and (match := _BASE.fullmatch(name)):
        number, txn = match.groups()
        return Base(write_id=WriteId(int(number)), visibility_txn_id=TxnId(int(txn or 0)))
    if fits and (match := _DELTA.fullmatch(name)):
        kind, low, high, statement, txn = match.groups()
        return Delta(
            kind=DeltaKind(kind),
            min_write_id=WriteId(int(low)),
            max_write_id=WriteId(int(high)),
            statement_id=None if statement is None else int(statement),
            visibility_txn_id=TxnId(int(txn or 0)),
        )
    if name.startswith(_ACID_PREFIXES):
        raise BadName(
            f"directory {name!r}: expected base_<write id>[_v<txn>] or "
            "[delete_]delta_<min>_<max>[_<statement>][_v<txn>]; find out who wrote it and move it out of the table"
        )
    return None


def known_directory(name: str) -> Base | Delta | None:
    """Returns the base or delta of this name; None for any other name, also for one that no writer gives."""
    try:
        return parse_directory(name)
    except BadName:
        return None


@lru_cache(maxsize=_NAMES_KEPT)
def parse_file(name: str) -> BucketFile | OriginalFile | None:
    """Returns the file number and other parts of a data file's name; None for any other name.

    Readers skip files with other names.
    """
    if match := _BUCKET.fullmatch(name):
        number, attempt = match.groups()
        return BucketFile(number=int(number), attempt=None if attempt is None else int(attempt))
    if match := _ORIGINAL.fullmatch(name):
        return OriginalFile(number=int(match.group(1)), name=name)
    return None


def is_skipped(name: str) -> bool:
    """Returns true if every reader skips this file or directory.

    Readers skip hidden names, and the ``-tmp.`` manifests of running writers.

    ``-tmp.*`` is not hidden by Hive's own rule; Hive 4 writers keep such directories in the table's root while they run.
    """
    return name.startswith(_SKIPPED)


def is_skipped_below(path: str) -> bool:
    """Returns true if ``is_skipped`` holds for any name in ``path`` but the first."""
    return _SKIPPED_BELOW.search(path) is not None


def staging_name(txn: TxnId, token: str = "") -> str:
    """Returns the name of the hidden directory in which the compaction of transaction ``txn`` works.

    Args:
        token: random hexadecimal digits, so that nobody can take the name first.
    """
    return f"{STAGING_PREFIX}{txn}_{token}" if token else f"{STAGING_PREFIX}{txn}"


def writing_name(txn: TxnId, token: str) -> str:
    """Returns the name of the hidden directory in which transaction ``txn`` stages its rows.

    Args:
        token: random hexadecimal digits, so that nobody can take the name first.
    """
    return f"{WRITING_PREFIX}{txn}_{token}"


def parse_staging(name: str) -> TxnId | None:
    """Returns the transaction of a staging directory, of a compaction or a writer; else None."""
    match = _STAGING.fullmatch(name)
    txn = _number(match.group(1)) if match else None
    return None if txn is None else TxnId(txn)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hidden:
    """A directory that waits to be removed.

    ``final_name`` may go once all transactions up to ``until`` have ended.
    """

    final_name: str
    until: TxnId

    @property
    def name(self) -> str:
        return f"{HIDDEN_PREFIX}{self.until}_{self.final_name}"


def set_aside_name(name: str, at_ms: int) -> str:
    """Returns the hidden name of a directory that a person has set aside at ``at_ms`` (epoch ms).

    Nothing of ours ever removes it.
    """
    return f"{SET_ASIDE_PREFIX}{at_ms}_{name}"


def parse_hidden(name: str) -> Hidden | None:
    """Parses ``.compactor_obsolete_<txn>_<final name>``; None for any other name."""
    match = _HIDDEN.fullmatch(name)
    until = _number(match.group(1)) if match else None
    return None if match is None or until is None else Hidden(until=TxnId(until), final_name=match.group(2))


@dataclass(frozen=True, slots=True, kw_only=True)
class Quarantine:
    """A directory with what the cleaning of one entry hid from readers, under the final names.

    ``is_erased`` once it has been given up: it is emptied under that name.
    """

    entry_id: int
    is_erased: bool = False

    @property
    def name(self) -> str:
        return f"{QUARANTINE_PREFIX}{self.entry_id}{'_erased' if self.is_erased else ''}"


def parse_quarantine(name: str) -> Quarantine | None:
    """Parses ``.compactor_quarantine_<entry>[_erased]``; None for any other name."""
    match = _QUARANTINE.fullmatch(name)
    entry_id = _number(match.group(1)) if match else None
    return None if match is None or entry_id is None else Quarantine(entry_id=entry_id, is_erased=bool(match.group(2)))


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryClaim:
    """The claim of one table on a directory. ``token`` is that of its metastore (PROTOCOL 11.13)."""

    token: str
    table_id: int

    @property
    def name(self) -> str:
        return f"{CLAIM_PREFIX}{self.token}_{self.table_id}"


def parse_claim(name: str) -> DirectoryClaim | None:
    """Parses ``.compactor_claim_<token>_<table id>``; None for any other name."""
    if not name.startswith(CLAIM_PREFIX):
        return None
    match = _CLAIM.fullmatch(name)
    table_id = _number(match.group(2)) if match else None
    return None if match is None or table_id is None else DirectoryClaim(token=match.group(1), table_id=table_id)


def _number(digits: str) -> int | None:
    """Returns the number; None for one that no metastore gives, and no database takes."""
    return number if (number := int(digits)) <= NOTHING_OPEN else None

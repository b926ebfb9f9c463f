"""Decides which compaction a table or partition needs now, and why.

Hive's ``CompactorUtil.determineCompactionType`` does the same.

The order is Hive's, and every comparison is strict. Two things are ours. The initiator makes no request that
``check_enough`` would reject at once. Removing aborted transactions comes last, since the cleaning after a compaction
removes them too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import ClassVar

from compactor.acid.directory import AcidDirectory
from compactor.acid.listing import AcidDir, DataFile, describe_unparsable
from compactor.acid.names import Base, BucketFile, DeltaKind, parse_file
from compactor.acid.names import parse_directory as parse_name
from compactor.base.errors import BadName
from compactor.base.printable import count_text
from compactor.compaction.health import SMALL_FILE
from compactor.compaction.states import CompactionType
from compactor.settings.precedence import Settings

_NUM, _PCT = "hive.compactor.delta.num.threshold", "hive.compactor.delta.pct.threshold"
_ABORTS, _AGE = "hive.compactor.abortedtxn.threshold", "hive.compactor.aborted.txn.time.threshold"
READERS, _TRINOS = "compactor.readers", frozenset({"strict", "trino"})
_BY_CLEANER = "hive.compactor.clean.aborts.using.cleaner"


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The figures on which a decision rests.

    Deltas are those that a compaction may read; ``waiting`` counts the directories that it may not read yet. ``obsolete``
    includes aborted directories that may be removed. ``numbered_attempts`` counts delete deltas with a file such as
    ``bucket_00000_0``, which Trino does not look for (docs/readers.md). ``base_bytes`` is the size of the originals if
    there is no base. ``oldest_abort_age_ms`` is None without aborts. ``misread`` counts directories that Hive cannot read
    because the table was insert-only when they were written.
    """

    base_bytes: int = 0
    delta_bytes: int = 0
    delete_bytes: int = 0
    files: int = 0
    small_files: int = 0
    deltas: int = 0
    delete_deltas: int = 0
    numbered_attempts: int = 0
    originals: int = 0
    waiting: int = 0
    has_base: bool = False
    obsolete: int = 0
    base_obsolete: bool = False
    aborts: int = 0
    oldest_abort_age_ms: int | None = None
    is_insert_only: bool = False
    minor_supported: bool = True
    misread: int = 0
    unparsable: tuple[str, ...] = ()

    @classmethod
    def from_directory(
        cls,
        directory: AcidDirectory,
        *,
        held: int = 0,
        aborts: int = 0,
        oldest_abort_age_ms: int | None = None,
        is_insert_only: bool = False,
        minor_supported: bool = True,
    ) -> Facts:
        """Builds the facts of one directory under the compactor's list; the metastore counts the aborts.

        Args:
            held: aborted directories that must not be removed yet.
        """
        deltas = directory.compactable()
        files = list(_list_files(directory, deltas))
        return cls(
            base_bytes=directory.base_bytes,
            delta_bytes=sum(delta.total_bytes for delta in deltas),
            delete_bytes=sum(delta.total_bytes for delta in deltas if delta.delta.kind is DeltaKind.DELETE),
            files=len(files),
            small_files=_count_small(files),
            deltas=len(deltas),
            delete_deltas=sum(delta.delta.kind is DeltaKind.DELETE for delta in deltas),
            numbered_attempts=sum(map(_has_numbered_attempt, deltas)),
            originals=len(directory.originals),
            waiting=directory.waiting,
            has_base=directory.base is not None,
            obsolete=len(directory.obsolete) + len(directory.aborted) - held,
            base_obsolete=any(map(_is_base, directory.obsolete)),
            aborts=aborts,
            oldest_abort_age_ms=oldest_abort_age_ms,
            is_insert_only=is_insert_only,
            minor_supported=minor_supported,
            misread=0 if is_insert_only else len(directory.misread),
            unparsable=directory.unparsable,
        )


def _has_numbered_attempt(delta: AcidDir) -> bool:
    """Returns true for a delete delta with an attempt number in a file name.

    All DML of Hive 4 writes such names.
    """
    if delta.delta.kind is not DeltaKind.DELETE:
        return False
    names = (parse_file(file.path.rpartition("/")[2]) for file in delta.files)
    return any(isinstance(name, BucketFile) and name.attempt is not None for name in names)


def _list_files(directory: AcidDirectory, deltas: Iterable[AcidDir]) -> Iterator[DataFile]:
    yield from directory.originals
    for read in (directory.base, *deltas):
        if read is not None:
            yield from read.files


def _count_small(files: Iterable[DataFile]) -> int:
    """Counts the small files that a compaction would join with another file of the same number."""
    sizes: dict[int, list[bool]] = {}
    for file in files:
        sizes.setdefault(file.number, []).append(file.length < SMALL_FILE)
    return sum(sum(small) - all(small) for small in sizes.values())


def _nothing() -> Mapping[str, int | float]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The outcome for a table or partition: ``because`` gives the numbers, ``flips`` what would change it."""

    because: str
    numbers: Mapping[str, int | float] = field(default_factory=_nothing)
    flips: tuple[str, ...] = ()
    mends: bool = False  #: it is due although nothing was written: Hive cannot read what is there

    type: ClassVar[CompactionType | None] = None  #: of the request the decision leads to

    @property
    def name(self) -> str:
        """``Minor``, ``Major``, ``CleanOnly``, ``AbortCleanup`` or ``NotNeeded``."""
        return type(self).__name__


class Minor(Decision):
    """A minor compaction: merge the deltas into one pair."""

    __slots__ = ()
    type: ClassVar[CompactionType | None] = CompactionType.MINOR


class Major(Decision):
    """A major compaction: write everything into a new base."""

    __slots__ = ()
    type: ClassVar[CompactionType | None] = CompactionType.MAJOR


class CleanOnly(Decision):
    """Only obsolete directories to remove; the request (major, as in Hive) goes straight to cleaning."""

    __slots__ = ()
    type: ClassVar[CompactionType | None] = CompactionType.MAJOR


class AbortCleanup(Decision):
    """Abort clean-up: remove the files of aborted transactions."""

    __slots__ = ()
    type: ClassVar[CompactionType | None] = CompactionType.ABORT_CLEANUP


class NotNeeded(Decision):
    """No compaction is needed now."""

    __slots__ = ()


def decide(facts: Facts, settings: Settings) -> Decision:
    """Decides what should happen under ``settings``, which include the table's own.

    Raises:
        BadSetting: the value of a threshold cannot be parsed.
    """
    numbers = _list_numbers(facts, settings)
    if facts.unparsable:
        return NotNeeded(
            because=f"{describe_unparsable(facts.unparsable)}; nothing is decided while it is there",
            numbers=numbers,
            flips=("find out who wrote it and move it out of the table",),
        )
    by_cleaner = settings.boolean(_BY_CLEANER)
    chosen = _decide_by_misread(facts, numbers)
    chosen = chosen or (None if by_cleaner else _decide_by_aborts(facts, settings, numbers))
    chosen = chosen or _decide_by_size(facts, settings, numbers) or _decide_by_number(facts, settings, numbers)
    chosen = chosen or _decide_by_readers(facts, settings, numbers)
    if chosen is not None:
        chosen = _check_worth(chosen, facts)
    if by_cleaner and (chosen is None or isinstance(chosen, NotNeeded)):
        chosen = _decide_abort_cleanup(facts, settings, numbers) or chosen
    return chosen or NotNeeded(
        because=_describe_calm(facts, settings), numbers=numbers, flips=_list_flips(facts, settings)
    )


def _list_numbers(facts: Facts, settings: Settings) -> Mapping[str, int | float]:
    numbers: dict[str, int | float] = {
        "base_bytes": facts.base_bytes,
        "delta_bytes": facts.delta_bytes,
        "delete_bytes": facts.delete_bytes,
        "files": facts.files,
        "small_files": facts.small_files,
        "deltas": facts.deltas,
        "originals": facts.originals,
        "obsolete": facts.obsolete,
        "aborts": facts.aborts,
        _NUM: settings.integer(_NUM),
        _PCT: settings.ratio(_PCT),
        _ABORTS: settings.integer(_ABORTS),
        _AGE: settings.milliseconds(_AGE),
    }
    if facts.oldest_abort_age_ms is not None:
        numbers["oldest_abort_age_ms"] = facts.oldest_abort_age_ms
    return MappingProxyType(numbers)


def _decide_by_misread(facts: Facts, numbers: Mapping[str, int | float]) -> Decision | None:
    """Decides on a major compaction that gives the rows ACID columns (docs/hives-bugs.md)."""
    if not facts.misread:
        return None
    what = "directory was" if facts.misread == 1 else "directories were"
    because = f"{facts.misread} {what} compacted while the table was insert-only, and Hive takes that for ACID files"
    return Major(because=because, numbers=numbers, flips=("this compaction",), mends=True)


def _describe_many_aborts(facts: Facts, settings: Settings) -> str | None:
    limit = settings.integer(_ABORTS)
    return f"{facts.aborts} aborted transactions > {limit} ({_ABORTS})" if facts.aborts > limit else None


def _describe_old_abort(facts: Facts, settings: Settings) -> str | None:
    age, limit = facts.oldest_abort_age_ms, settings.milliseconds(_AGE)
    if age is None or limit < 0 or age <= limit:
        return None
    return f"oldest aborted transaction is {_format_duration(age)} old > {_format_duration(limit)} ({_AGE})"


def _decide_by_aborts(facts: Facts, settings: Settings, numbers: Mapping[str, int | float]) -> Decision | None:
    if many := _describe_many_aborts(facts, settings):
        return Major(because=many, numbers=numbers, flips=(f"{_ABORTS} of {facts.aborts} or more",))
    if old := _describe_old_abort(facts, settings):
        return Minor(because=old, numbers=numbers, flips=(f"a larger {_AGE}, or a negative one to turn it off",))
    return None


def _decide_abort_cleanup(facts: Facts, settings: Settings, numbers: Mapping[str, int | float]) -> Decision | None:
    because = _describe_many_aborts(facts, settings) or _describe_old_abort(facts, settings)
    if because is None:
        return None
    return AbortCleanup(because=because, numbers=numbers, flips=(f"larger {_ABORTS} and {_AGE}",))


def _has_no_base(facts: Facts) -> bool:
    return facts.base_bytes == 0 and facts.delta_bytes > 0


def _decide_by_size(facts: Facts, settings: Settings, numbers: Mapping[str, int | float]) -> Decision | None:
    if _has_no_base(facts):
        return None
    limit = settings.ratio(_PCT)
    ratio = facts.delta_bytes / facts.base_bytes if facts.base_bytes else 0.0
    if facts.base_bytes and ratio > limit:
        return Major(
            because=f"deltas are {facts.delta_bytes} bytes = {ratio:.3g} of the base's {facts.base_bytes} bytes > "
            f"{limit:g} ({_PCT})",
            numbers=numbers,
            flips=(f"{_PCT} of {ratio:.3g} or more",),
        )
    if facts.delta_bytes == 0 and facts.base_obsolete:
        return Major(because="an older base is obsolete and there are no deltas", numbers=numbers)
    return None


def _decide_by_number(facts: Facts, settings: Settings, numbers: Mapping[str, int | float]) -> Decision | None:
    limit = settings.integer(_NUM)
    if facts.deltas <= limit:
        return None
    because = f"{count_text(facts.deltas, 'delta')} > {limit} ({_NUM})"
    flips = (f"{_NUM} of {facts.deltas} or more",)
    if _has_no_base(facts):
        return Major(because=f"{because}, and no base", numbers=numbers, flips=flips)
    if not facts.minor_supported:
        what = "an insert-only table" if facts.is_insert_only else "these files"
        return Major(because=f"{because}, and no minor compaction of {what}", numbers=numbers, flips=flips)
    return Minor(because=because, numbers=numbers, flips=flips)


def _decide_by_readers(facts: Facts, settings: Settings, numbers: Mapping[str, int | float]) -> Decision | None:
    """Decides on a compaction that gives delete events names that Trino reads.

    Until then it shows deleted rows.
    """
    count, readers = facts.numbered_attempts, settings.text(READERS)
    if not count or readers not in _TRINOS:
        return None
    what = "delete delta has" if count == 1 else "delete deltas have"
    because = f"{count} {what} files with attempt numbers, which Trino does not apply ({READERS} = {readers})"
    kind = Minor if facts.minor_supported else Major
    return kind(because=because, numbers=numbers, flips=(f"{READERS} = any",))


def _check_worth(chosen: Decision, facts: Facts) -> Decision:
    """Returns ``chosen``, unless a worker would find nothing to merge.

    Hive repeats such a request in every cycle.
    """
    assert chosen.type is not None
    shortage = _find_shortage(
        chosen.type,
        deltas=facts.deltas,
        delete_deltas=facts.delete_deltas,
        numbered_attempts=facts.numbered_attempts,
        has_base=facts.has_base,
        originals=facts.originals,
        waiting=facts.waiting,
        misread=facts.misread,
    )
    if shortage is None:
        return chosen
    if facts.obsolete:
        return CleanOnly(
            because=f"{shortage}, but {_describe_obsolete(facts.obsolete)} to be removed",
            numbers=chosen.numbers,
            flips=("another delta",),
        )
    return NotNeeded(because=f"{chosen.because}, but {shortage}", numbers=chosen.numbers, flips=("another delta",))


def _describe_calm(facts: Facts, settings: Settings) -> str:
    if facts.deltas == 0:
        return f"there are no deltas to merge{_describe_waiting(facts.waiting)}"
    parts = [f"{count_text(facts.deltas, 'delta')} <= {settings.integer(_NUM)} ({_NUM})"]
    if not _has_no_base(facts) and facts.base_bytes:
        ratio = facts.delta_bytes / facts.base_bytes
        parts.append(f"deltas are {ratio:.3g} of the base <= {settings.ratio(_PCT):g} ({_PCT})")
    return ", ".join(parts) + _describe_waiting(facts.waiting)


def _describe_waiting(number: int) -> str:
    if number == 0:
        return ""
    what = "directory waits" if number == 1 else "directories wait"
    return f"; {number} {what} for an open transaction to end (compactor show transactions)"


def _describe_obsolete(number: int) -> str:
    return f"{number} obsolete or aborted {'directory waits' if number == 1 else 'directories wait'}"


def _list_flips(facts: Facts, settings: Settings) -> tuple[str, ...]:
    limit = settings.integer(_NUM)
    flips = [f"more than {count_text(limit, 'delta')} (now {facts.deltas})"]
    if facts.base_bytes:
        limit_bytes = settings.ratio(_PCT) * facts.base_bytes
        flips.append(f"more than {limit_bytes:.0f} bytes in deltas (now {facts.delta_bytes})")
    flips.append(f"more than {count_text(settings.integer(_ABORTS), 'aborted transaction')} (now {facts.aborts})")
    return tuple(flips)


@dataclass(frozen=True, slots=True, kw_only=True)
class Enough:
    """The answer that a compaction has something to merge."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NothingToDo:
    """The answer that it has nothing to merge.

    With ``obsolete`` the request goes to cleaning, otherwise it is refused.
    """

    because: str
    obsolete: bool


def check_enough(
    directory: AcidDirectory, type: CompactionType, *, is_insert_only: bool = False
) -> Enough | NothingToDo:
    """Checks whether a worker has something to merge, regardless of thresholds.

    Hive's ``isEnoughToCompact`` does the same.
    """
    deltas = directory.compactable()
    shortage = _find_shortage(
        type,
        deltas=len(deltas),
        delete_deltas=sum(delta.delta.kind is DeltaKind.DELETE for delta in deltas),
        numbered_attempts=sum(map(_has_numbered_attempt, deltas)),
        has_base=directory.base is not None,
        originals=len(directory.originals),
        waiting=directory.waiting,
        misread=0 if is_insert_only else len(directory.misread),
    )
    if shortage is None:
        return Enough()
    return NothingToDo(because=shortage, obsolete=bool(directory.obsolete or directory.aborted))


def _find_shortage(
    type: CompactionType,
    *,
    deltas: int,
    delete_deltas: int,
    numbered_attempts: int,
    has_base: bool,
    originals: int,
    waiting: int,
    misread: int,
) -> str | None:
    """Returns the reason why there is nothing to merge, or None if there is something."""
    match type:
        case CompactionType.REBALANCE:
            return None
        case CompactionType.ABORT_CLEANUP:
            return "the removal of aborted transactions merges nothing"
        case CompactionType.SMART_OPTIMIZE:
            return "only Hive compacts Iceberg tables"
        case CompactionType.MAJOR:
            if originals > 0 or misread > 0 or deltas + has_base > 1:
                return None
            if deltas + has_base == 0:
                reason = "nothing may be merged yet" if waiting else "the directory is empty"
            else:
                reason = (
                    "a base alone is a major compaction's result" if has_base else "one delta alone merges with nothing"
                )
            return reason + _describe_waiting(waiting)
        case CompactionType.MINOR:
            if numbered_attempts:  # their files get other names, even if nothing is merged
                return None
            if deltas < 2:
                return f"a minor compaction needs two deltas, found {deltas}{_describe_waiting(waiting)}"
            if deltas == 2 and delete_deltas == 1:
                return f"one delta and one delete delta are a minor compaction's result{_describe_waiting(waiting)}"
            return None


def _is_base(name: str) -> bool:
    try:
        return isinstance(parse_name(name), Base)
    except BadName:
        return False


def _format_duration(milliseconds: int) -> str:
    """Formats a duration as ``90 s`` or ``12 h``, in the largest unit that needs at most one decimal."""
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000)):
        if milliseconds >= 2 * size:
            return f"{milliseconds / size:.1f}".removesuffix(".0") + f" {unit}"
    return f"{milliseconds} ms"

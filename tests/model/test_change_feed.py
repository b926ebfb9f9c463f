"""Random histories of one table: every version and every change is whole, or refused (PROTOCOL 16).

The model is a plain list of commits. It says which rows each version has. Rows are told apart by a number that occurs once.
ROW__IDs are those that a version showed while it was the current one.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from unittest.mock import patch

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from compactor.base.errors import ChangesGone, LockNotGranted, Refused, SnapshotExpired, WriteConflict
from compactor.batches.assembly import list_claimable_ids
from compactor.batches.driver import run_entries
from compactor.cleaner.cleaner import clean
from compactor.requests.request import request_compaction
from compactor.rewrite.run.runner import InProcessRunner
from compactor.site.site import Site
from compactor.tables import Store, Table
from tests.support.sizes import sized
from tests.support.tables import with_settings

Row = tuple[int, tuple[int, int, int], int]  #: number, ROW__ID, partition
_LATE = 3  #: open transactions of late commits


@dataclass
class Commit:
    """The effect of one write: the numbers of rows by partition; an overwrite removes all older rows of its partitions."""

    inserted: dict[int, int]
    deleted: set[int] = field(default_factory=set)
    replaced: set[int] = field(default_factory=set)


class History:
    """A table, the commits of its model by write ID, and what each version showed while it was current."""

    def __init__(self, site: Site, warehouse: Path, seed: int) -> None:
        self.random = random.Random(seed)
        self.site, self.name = site, f"db.t{seed}"
        self.store = Store(site)
        self.is_partitioned = bool(seed % 2)
        keys = ["p"] if self.is_partitioned else []
        self.table = self.store.create_table(self.name, {"n": "int", "p": "int"}, partitioned_by=keys)
        self.folder = warehouse / f"t{seed}"
        self.numbers = 0
        self.commits: dict[int, Commit] = {}
        self.shown: dict[int, Counter[Row]] = {}
        self.late: list[tuple[ExitStack, Commit, int]] = []
        self.largest: dict[str, int] = {}

    # -- what the model says

    def numbers_of(self, version: int) -> Counter[int]:
        rows: dict[int, tuple[int, int]] = {}
        for write_id in sorted(write_id for write_id in self.commits if write_id <= version):
            commit = self.commits[write_id]
            for number in [n for n, (p, _) in rows.items() if p in commit.replaced]:
                del rows[number]
            for number in commit.deleted:
                rows.pop(number, None)
            rows.update({number: (p, write_id) for number, p in commit.inserted.items()})
        return Counter(rows)

    def gone(self) -> list[tuple[int, int, bool]]:
        """Returns versions that no directory proves, by the names on disk.

        Each item has the first and the last of them, and whether a base replaced them.
        """
        ranges = []
        for place in [path for path in self.folder.glob("p=*") if path.is_dir()] or [self.folder]:
            names = [path.name for path in place.iterdir() if path.is_dir()]
            bases = [int(match[1]) for name in names if (match := re.match(r"base_(\d+)", name))]
            base = max([*bases, self.largest.get(place.name, 0)])
            self.largest[place.name] = base
            ranges.append((0, base - 1, True))
            for name in names:
                match = re.match(r"(?:delete_)?delta_(\d+)_(\d+)", name)
                if match and int(match[1]) < int(match[2]) and int(match[2]) > base:
                    ranges.append((int(match[1]), int(match[2]) - 1, False))
        return ranges

    # -- steps

    def new_rows(self) -> pa.Table:
        count = self.random.randint(1, 4)
        numbers = range(self.numbers, self.numbers + count)
        self.numbers += count
        return pa.table({"n": pa.array(numbers, pa.int32()), "p": pa.array([n % 2 for n in numbers], pa.int32())})

    def live(self) -> list[int]:
        return self.table.scan().to_arrow()["n"].to_pylist()

    def last_write_id(self) -> int:
        return int(self.site.metastore.write_ids.next("db", self.table.name.partition(".")[2])) - 1

    def record(self, commit: Commit) -> None:
        self.commits[self.last_write_id()] = commit

    def append(self) -> None:
        rows = self.new_rows()
        self.table.append(rows)
        self.record(Commit(_by_number(rows)))

    def delete(self) -> None:
        if live := self.live():
            chosen = self.random.sample(live, self.random.randint(1, len(live)))
            self.table.delete(f"n in ({', '.join(map(str, chosen))})")
            self.record(Commit({}, set(chosen)))

    def update(self) -> None:
        if live := self.live():
            chosen = self.random.choice(live)
            new = self.numbers + (self.numbers + chosen) % 2  # of the same partition
            self.numbers = new + 1
            self.table.update({"n": str(new)}, f"n = {chosen}")
            self.record(Commit({new: new % 2}, {chosen}))

    def overwrite(self) -> None:
        rows = self.new_rows()
        self.table.overwrite(rows)
        commit = Commit(_by_number(rows))
        commit.replaced = set(commit.inserted.values()) if self.is_partitioned else {0, 1}
        self.record(commit)

    def several_statements(self) -> None:
        rows = self.new_rows()
        kept = _by_number(rows)
        with self.store.transaction() as txn:
            table = txn.load_table(self.name)
            table.append(rows)
            at_once = next(iter(kept))
            table.delete(f"n = {at_once}")
        del kept[at_once]
        self.record(Commit(kept))

    def abort(self) -> None:
        with suppress(ZeroDivisionError), self.store.transaction() as txn:
            table = txn.load_table(self.name)
            table.append(self.new_rows())
            if self.random.random() < 0.5:
                table.delete()
            raise ZeroDivisionError

    def begin_late(self) -> None:
        if len(self.late) < _LATE:
            stack, rows = ExitStack(), self.new_rows()
            txn = stack.enter_context(self.store.transaction())
            txn.load_table(self.name).append(rows)
            self.late.append((stack, Commit(_by_number(rows)), self.last_write_id()))

    def end_late(self) -> None:
        if self.late:
            stack, commit, write_id = self.late.pop(self.random.randrange(len(self.late)))
            with suppress(WriteConflict):
                stack.close()
                self.commits[write_id] = commit

    def compact(self, kind: str) -> None:
        partitions = [*self.table.partitions] if self.is_partitioned else [None]
        for partition in partitions:
            with suppress(Refused):
                request_compaction(self.site, table=self.name, partition=partition, type=kind)
        run_entries(self.site, list_claimable_ids(self.site), InProcessRunner())

    def clean(self) -> None:
        for _ in range(2):
            clean(self.site)

    def step(self) -> None:
        steps = [self.append] * 4 + [self.delete] * 3 + [self.update] * 3 + [self.overwrite, self.abort, self.clean]
        steps += [self.several_statements, self.begin_late, self.end_late, self.end_late]
        steps += [lambda: self.compact("minor")] * 2 + [
            lambda: self.compact("major"),
            lambda: self.compact("rebalance"),
        ]
        with suppress(WriteConflict, LockNotGranted):  # a write that is still open is in the way
            self.random.choice(steps)()
        self.gone()
        self.note()

    def note(self) -> None:
        """Notes what the current version shows, which the model must explain."""
        version = self.table.version()
        if version not in self.shown:
            rows = _rows(self.table.scan(row_ids=True, as_of=version).to_arrow())
            assert Counter(row[0] for row in rows.elements()) == Counter(self.numbers_of(version).keys())
            self.shown[version] = rows

    # -- what is checked

    def check(self) -> Counter[str]:
        """Asks for every version and every range, of one snapshot."""
        seen: Counter[str] = Counter()
        gone = self.gone()
        with self.store.transaction() as txn:
            table = txn.load_table(self.name)
            for version, rows in self.shown.items():
                seen[self.check_version(table, version, rows, gone)] += 1
            for since, before in self.shown.items():
                for until, after in self.shown.items():
                    if since <= until:
                        for net in (False, True):
                            seen[self.check_range(table, (since, until), (before, after), gone, net=net)] += 1
        return seen

    def check_version(self, table: Table, version: int, rows: Counter[Row], gone: list[tuple[int, int, bool]]) -> str:
        is_gone = any(first <= version <= last for first, last, _ in gone)
        if is_gone:
            with pytest.raises(SnapshotExpired, match="can no longer be read"):
                table.scan(as_of=version).count()
            return "version refused"
        assert _rows(table.scan(row_ids=True, as_of=version).to_arrow()) == rows
        return "version"

    def check_range(
        self,
        table: Table,
        range_: tuple[int, int],
        states: tuple[Counter[Row], Counter[Row]],
        gone: list[tuple[int, int, bool]],
        *,
        net: bool,
    ) -> str:
        since, until = range_
        is_gone = any(
            first <= since <= last
            or (net and first <= until <= last)
            or (not (net or is_base) and first <= until and since <= last)
            for first, last, is_base in gone
        )
        if is_gone:
            with pytest.raises(ChangesGone) as refusal:
                table.changes(since, until, net=net)
            assert refusal.value.first_version > since
            return "changes refused"
        changes = table.changes(since, until, net=net).read_all()
        inserts = _rows(changes.filter(pc.equal(changes["_change_type"], "insert")))
        deletes = _rows(changes.filter(pc.equal(changes["_change_type"], "delete")))
        expected = states[0] + inserts
        expected.subtract(deletes)
        assert +expected == states[1]
        assert min(expected.values(), default=0) >= 0
        if net:
            assert not inserts & deletes
        for row in changes.to_pylist():
            commit = self.commits[row["_commit_version"]]
            assert since < row["_commit_version"] <= until
            assert row["n"] in (commit.inserted if row["_change_type"] == "insert" else commit.deleted)
        if not net:
            between = [commit for write_id, commit in self.commits.items() if since < write_id <= until]
            assert inserts.total() == sum(len(commit.inserted) for commit in between)
        return "changes"


def _by_number(rows: pa.Table) -> dict[int, int]:
    return dict(zip(rows["n"].to_pylist(), rows["p"].to_pylist(), strict=True))


def _rows(rows: pa.Table) -> Counter[Row]:
    return Counter((row["n"], tuple(row["row__id"].values()), row["p"]) for row in rows.to_pylist())


@pytest.fixture
def site(deployment: Site, warehouse: Path) -> Site:
    Store(deployment).create_database("db", str(warehouse))
    return with_settings(deployment, hive_txn_opentxn_timeout="0ms", compactor_lock_wait="0s")


def test_every_version_and_every_change_is_whole_or_refused(site: Site, warehouse: Path) -> None:
    seen: Counter[str] = Counter()
    with patch("compactor.tables.reading.scan.THREADS", 1):
        for seed in range(sized(short=3, whole=100)):
            history = History(site, warehouse, seed)
            for moment in range(15):
                history.step()
                if moment % 5 == 4:
                    seen += history.check()
            for stack, _, _ in history.late:
                stack.close()
    assert min(seen[kind] for kind in ("version", "version refused", "changes", "changes refused")) > 10, seen

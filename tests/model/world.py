"""Plays a story in a real directory and a real metastore, and compares after every compaction and cleaning."""

from __future__ import annotations

import struct
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sqlalchemy import update

from compactor.acid.directory import acid_directory
from compactor.acid.listing import Listing
from compactor.acid.write_ids import ValidTxnList, ValidWriteIdList
from compactor.base.errors import Refused
from compactor.base.ids import TxnId
from compactor.batches.assembly import list_claimable_ids
from compactor.batches.driver import run_entries
from compactor.cleaner.cleaner import clean
from compactor.compaction.queue_entry import Entity
from compactor.metastore.catalog.embedded import NewTable
from compactor.metastore.catalog.values import Column, Table
from compactor.metastore.schema.tables import COLUMNS_V2
from compactor.requests.request import request_compaction
from compactor.rewrite.run.runner import InProcessRunner
from compactor.site.site import Site
from compactor.storage.local import LocalStorage
from compactor.worker.ending import Outcome, Result
from compactor.worker.under_way import Options
from demo.snapshot_reader import read_snapshot
from tests.model import reader, stories
from tests.model.files import (
    DELETE,
    INSERT,
    Event,
    Key,
    Layout,
    Row,
    canonical,
    last_keys,
    row_type,
    write_acid,
    write_raw,
)
from tests.model.stories import ABORT, COMMIT, value
from tests.support.expected import plain
from tests.support.tables import with_settings

ENTITY = Entity(database="default", table="t")
TWO = (0, 1)  #: the file numbers of every table


@dataclass(slots=True)
class Sight:
    """A snapshot, and what it showed when it was taken; ``txn`` holds it as long as it is open."""

    txns: ValidTxnList
    write_ids: ValidWriteIdList
    rows: list[tuple[Key, Row]]
    columns: int
    txn: TxnId | None

    @property
    def snapshot(self) -> reader.Snapshot:
        return reader.Snapshot.of(str(self.txns), str(self.write_ids))


@dataclass(slots=True)
class World:
    """One table and all that was ever seen of it."""

    site: Site
    table: Table
    location: Path
    columns: list[str]
    known: list[tuple[int, Key]] = field(default_factory=list)  #: file number and key of every row ever written
    open: list[TxnId] = field(default_factory=list)
    sights: list[Sight] = field(default_factory=list)
    seen: Counter[str] = field(default_factory=Counter)  #: what the story really led to

    @classmethod
    def of(cls, site: Site, warehouse: Path, story: stories.Story) -> World:
        location = warehouse / "t"
        location.mkdir(parents=True)
        site.metastore.embedded_catalog.create_database("default", str(warehouse))
        table = site.metastore.embedded_catalog.create_table(
            NewTable(
                "default",
                "t",
                str(location),
                [Column(name=f"c{place}", type=kind) for place, kind in enumerate(story.columns)],
                parameters={"transactional": "true", "transactional_properties": "default"},
            )
        )
        world = cls(site=site, table=table, location=location, columns=list(story.columns))
        world.originals(story)
        return world

    def tell(self, story: stories.Story) -> None:
        """Everything that happens, one after the other; a snapshot is taken before each compaction."""
        for happening in story.happenings:
            getattr(self, "do_" + type(happening).__name__.lower())(happening)

    # -- writing

    def originals(self, story: stories.Story) -> None:
        counter = {0: 0, 1: 0}
        for place, (number, count) in enumerate(sorted(story.originals)):
            name = f"{number:06d}_0" + (f"_copy_{place}" if place else "")
            write_raw(self.location / name, self.columns, self.rows(place, count), story.original_layout)
            self.known += [(number, (0, bucket(number, 0), counter[number] + n)) for n in range(count)]
            counter[number] += count

    def rows(self, seed: int, count: int) -> list[Row]:
        return [
            tuple(value(kind, seed + n + 3 * place) for place, kind in enumerate(self.columns)) for n in range(count)
        ]

    def begin(self) -> tuple[TxnId, int]:
        txn = self.site.metastore.transactions.open("writer", "host")[0]
        write_id = self.site.metastore.write_ids.allocate(txn, "default", "t")
        self.site.metastore.write_ids.add_component(txn, ENTITY, "i", write_id)
        return txn, write_id

    def end(self, txn: TxnId, how: str) -> None:
        if how == COMMIT:
            self.site.metastore.transactions.commit(txn)
        elif how == ABORT:
            self.site.metastore.transactions.abort(txn, "the story says so")
        else:
            self.open.append(txn)

    def directory(self, name: str) -> Path:
        path = self.location / name
        path.mkdir(exist_ok=True)
        (path / "_orc_acid_version").write_text("2")
        return path

    def write(self, path: Path, number: int, events: list[Event], layout: Layout) -> None:
        name = f"bucket_{number:05d}" + ("_0" if layout.attempt else "")
        write_acid(path / name, self.columns, events, layout)

    def inserts(
        self, directory: str, number: int, write_id: int, statement: int, rows: list[Row], layout: Layout
    ) -> list[Key]:
        keys = [(write_id, bucket(number, statement), n) for n in range(len(rows))]
        events = [Event(operation=INSERT, key=k, current=write_id, row=r) for k, r in zip(keys, rows, strict=True)]
        self.write(self.directory(directory), number, events, layout)
        self.known += [(number, key) for key in keys]
        return keys

    def deletes(self, write_id: int, statement: int, gone: list[tuple[int, Key]], layout: Layout) -> None:
        path = self.directory(f"delete_delta_{write_id:07d}_{write_id:07d}_{statement:04d}")
        for number in TWO:
            keys = sorted({key for home, key in gone if home == number})
            if keys:
                events = [Event(operation=DELETE, key=key, current=write_id, row=None) for key in keys]
                self.write(path, number, events, layout)

    def do_insert(self, insert: stories.Insert) -> None:
        txn, write_id = self.begin()
        first: list[tuple[int, Key]] = []
        for statement in range(insert.statements):
            for number, count in zip(TWO, insert.counts, strict=True):
                if count:
                    name = f"delta_{write_id:07d}_{write_id:07d}_{statement:04d}"
                    rows = self.rows(insert.seed + statement, count)
                    keys = self.inserts(name, number, write_id, statement, rows, insert.layout)
                    first += [(number, key) for key in keys]
        again = first[: insert.deleted_again]
        if again and insert.statements > 1:
            self.deletes(write_id, insert.statements, again, insert.layout)
        self.end(txn, insert.end)

    def do_delete(self, delete: stories.Delete) -> None:
        if not self.known:
            return
        gone = [self.known[pick % len(self.known)] for pick in delete.picks]
        if delete.misplaced:
            gone = [(1 - number, key) for number, key in gone]
        txn, write_id = self.begin()
        self.deletes(write_id, 0, gone, delete.layout)
        if delete.update:
            self.inserts(
                f"delta_{write_id:07d}_{write_id:07d}_0000",
                0,
                write_id,
                0,
                self.rows(write_id, len(gone)),
                delete.layout,
            )
        self.end(txn, delete.end)

    def do_stream(self, stream: stories.Stream) -> None:
        batch = [self.begin() for _ in stream.ends]
        low, high = batch[0][1], batch[-1][1]
        path = self.directory(f"delta_{low:07d}_{high:07d}")
        for number in TWO:
            events = []
            for _, write_id in batch:
                for n, row in enumerate(self.rows(stream.seed + write_id, stream.rows)):
                    key = (write_id, bucket(number, 0), n)
                    events.append(Event(operation=INSERT, key=key, current=write_id, row=row))
                    self.known.append((number, key))
            layout = replace(stream.layout, attempt=False)
            self.write(path, number, events, layout)
            file = path / f"bucket_{number:05d}"
            if stream.unflushed:
                (path / f"bucket_{number:05d}_flush_length").write_bytes(struct.pack(">qq", 0, file.stat().st_size))
                with file.open("ab") as more:
                    more.write(b"\x5a" * stream.unflushed)
        for (txn, _), end in zip(batch, stream.ends, strict=True):
            self.end(txn, end)

    def do_overwrite(self, overwrite: stories.Overwrite) -> None:
        if self.open:
            return  # it would wait for its exclusive lock
        txn, write_id = self.begin()
        path = self.directory(f"base_{write_id:07d}")
        if overwrite.truncate:
            (path / "_metadata_acid").write_text('{"thisFileVersion":"0","dataFormat":"truncated"}')
        else:
            self.inserts(path.name, 0, write_id, 0, self.rows(overwrite.seed, overwrite.count), overwrite.layout)
        self.end(txn, overwrite.end)

    def do_load(self, load: stories.Load) -> None:
        txn, write_id = self.begin()
        path = self.directory(f"delta_{write_id:07d}_{write_id:07d}_0000")
        rows = self.rows(load.seed, load.count)
        half = (load.count + 1) // 2
        for name, part in (("000000_0", rows[:half]), ("000000_0_copy_1", rows[half:])):
            write_raw(path / name, self.columns, part, load.layout)
        self.known += [(0, (write_id, bucket(0, 0), n)) for n in range(load.count)]
        self.end(txn, COMMIT)

    def do_addcolumn(self, added: stories.AddColumn) -> None:
        if len(self.columns) > 5:
            return
        with self.site.metastore.database.write() as conn:
            first = conn.execute(COLUMNS_V2.select()).first()
            assert first is not None
            place = len(self.columns)
            row = {"CD_ID": first.CD_ID, "COLUMN_NAME": f"c{place}", "TYPE_NAME": added.kind, "INTEGER_IDX": place}
            conn.execute(COLUMNS_V2.insert().values(**row))
        self.columns.append(added.kind)

    def do_widen(self, widen: stories.Widen) -> None:
        place = widen.place % len(self.columns)
        wider = stories.WIDER.get(self.columns[place])
        if wider is None:
            return
        self.columns[place] = wider[widen.step % len(wider)]
        with self.site.metastore.database.write() as conn:
            here = f"c{place}" == COLUMNS_V2.c.COLUMN_NAME
            conn.execute(update(COLUMNS_V2).where(here).values(TYPE_NAME=self.columns[place]))

    def do_settle(self, settle: stories.Settle) -> None:
        if self.open:
            self.end(self.open.pop(settle.which % len(self.open)), COMMIT if settle.commits else ABORT)

    # -- reading

    def look(self, txn: TxnId | None = None) -> Sight:
        """Takes a snapshot and what the model shows of it, which is what everybody must show from now on."""
        txns = self.site.metastore.transactions.snapshot(txn)
        write_ids = self.site.metastore.write_ids.valid("default", "t", txns)
        sight = Sight(txns=txns, write_ids=write_ids, rows=[], columns=len(self.columns), txn=txn)
        sight.rows = reader.read_rows(self.location, sight.snapshot, self.columns)
        known = {(str(s.txns), str(s.write_ids)) for s in self.sights if s.txn is None}
        if txn is not None or (str(txns), str(write_ids)) not in known:
            self.sights.append(sight)
        return sight

    def do_openreader(self, _: stories.OpenReader) -> None:
        self.look(self.site.metastore.transactions.open("reader", "host")[0])

    def do_endreader(self, end: stories.EndReader) -> None:
        held = [sight for sight in self.sights if sight.txn is not None]
        if held:
            sight = held[end.which % len(held)]
            assert sight.txn is not None
            self.site.metastore.transactions.commit(sight.txn)
            self.sights.remove(sight)

    def compare(self, when: str) -> None:
        """Model and engine show every snapshot what it always showed; columns that came since are NULL in it."""
        listing = LocalStorage().listing(str(self.location))
        for sight in self.sights[-5:]:
            later = (None,) * (len(self.columns) - sight.columns)
            wanted = sorted(((key, row + later) for key, row in sight.rows), key=repr)
            assert reader.read_rows(self.location, sight.snapshot, self.columns) == wanted, when
            assert self.engine_rows(sight, listing) == wanted, when

    def engine_rows(self, sight: Sight, listing: Listing) -> list[tuple[Key, Row]]:
        directory = acid_directory(listing, sight.write_ids, sight.txns)
        found = []
        for batch in read_snapshot(str(self.location), directory, sight.write_ids, row_type(self.columns)):
            for cells in zip(*batch.columns, strict=True):
                write_id, bucket_property, row_id, *row = (plain(cell) for cell in cells)
                found.append(((write_id, bucket_property, row_id), canonical(tuple(row), self.columns)))
        return sorted(found, key=repr)

    # -- compacting

    def do_compact(self, compact: stories.Compact) -> None:
        self.look()
        self.compare("before the compaction")
        site = with_settings(self.site, **_asked(compact))
        with suppress(Refused):  # one is there already that waits for its cleaner
            request_compaction(site, table="default.t", type="major" if compact.major else "minor")
        bound = compact.max_bytes or compact.chunk_bytes
        for _round in range(20):  # a bounded request asks anew for what it leaves
            waiting = list_claimable_ids(site)
            if not waiting:
                break
            self.compact_once(site, compact, waiting)
            self.look()
            self.compare("after the compaction")
            assert bound or not list_claimable_ids(site)
        assert not list_claimable_ids(site), "a bounded request never came to its end"

    def compact_once(self, site: Site, compact: stories.Compact, waiting: list[int]) -> None:
        now = self.look()
        major = reader.compacted(self.location, now.snapshot, major=True)
        options = Options(small_stripe_bytes=compact.small_stripe_bytes, full_verify=compact.full_verify)
        for outcome in run_entries(site, waiting, InProcessRunner(), options).outcomes:
            self.seen[outcome.result.name] += 1
            assert outcome.result in (Result.COMPACTED, Result.REFUSED, Result.CLEAN_ONLY), outcome
            if outcome.result is Result.COMPACTED:
                self.judge(outcome, major, now.snapshot)

    def judge(self, outcome: Outcome, major: reader.Compacted, snapshot: reader.Snapshot) -> None:
        """The output is exactly what the model's compactor makes of the same input, chunk by chunk."""
        found = {name.partition("_v")[0]: reader.written(self.location / name) for name in outcome.output}
        ranges = {(d.low, d.high) for d in reader.directories(self.location) if d.path.name in outcome.output}
        wanted = dict(major.directories)
        if not outcome.output[0].startswith("base_"):
            parts = [reader.compacted(self.location, snapshot, major=False, within=within) for within in ranges]
            wanted = {name: files for part in parts for name, files in part.directories.items()}
        assert _plain(found, self.columns) == _plain(wanted, self.columns)
        self.seen["chunks"] += len(ranges) > 1
        self.seen["left"] += bool(outcome.left)
        self.seen["major" if any(name.startswith("base_") for name in found) else "minor"] += 1
        for name in outcome.output:
            folder = self.location / name
            assert (folder / "_orc_acid_version").read_text() == "2"
            files = [path for path in folder.iterdir() if path.name.startswith("bucket_")]
            assert files, f"{name} is empty"
            for path in files:
                index, right = last_keys(path)
                assert index == right, path

    def do_clean(self, _: stories.Clean) -> None:
        """Afterwards only snapshots count that somebody held all the while, and those taken from now on."""
        self.look()
        self.sights = [sight for sight in self.sights if sight.txn is not None] + self.sights[-1:]
        site = with_settings(self.site, hive_txn_opentxn_timeout="0ms")
        before = len(list(self.location.iterdir()))
        for _round in range(2):
            clean(site)
        self.seen["cleaned"] += len(list(self.location.iterdir())) < before
        self.look()
        self.compare("after cleaning")


def _asked(compact: stories.Compact) -> dict[str, str]:
    """The settings of one compaction."""
    time = "0s" if not compact.chunk_bytes else "1h" if compact.in_time else "1ms"
    return {
        "hive_txn_opentxn_timeout": "0ms",
        "compactor_readers": "any" if compact.any_readers else "visibility",
        "compactor_lock_wait": "0ms",
        "compactor_split_bytes": "1" if compact.split else "1GB",
        "compactor_max_bytes": str(compact.max_bytes),
        "compactor_max_time": time,
        "compactor_chunk_bytes": str(compact.chunk_bytes or 1),
        "hive_compactor_max_num_delta": str(compact.max_deltas),
    }


def bucket(number: int, statement: int) -> int:
    return 1 << 29 | number << 16 | statement


def _plain(directories: dict[str, dict[int, list[Event]]], columns: list[str]) -> Any:
    return {
        name: {
            number: [
                (e.operation, e.key, e.current, None if e.row is None else repr(canonical(e.row, columns)))
                for e in sorted(events, key=lambda e: (e.key, e.current))
            ]
            for number, events in files.items()
        }
        for name, files in directories.items()
    }

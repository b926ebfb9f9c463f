"""Entries that a stranger puts into a table's directory, and everything that must not notice."""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread

from compactor.batches.assembly import plan_batches
from compactor.batches.driver import run_entries
from compactor.cleaner.cleaner import CleanerPass, clean
from compactor.compaction.queue_entry import Entity
from compactor.housekeeper.housekeeper import keep_house
from compactor.initiator.initiator import InitiatorPass, initiate
from compactor.metastore.catalog.values import Table
from compactor.rewrite.run.runner import InProcessRunner
from compactor.site.site import Site
from compactor.worker.ending import Outcome
from tests.support.passes import settle
from tests.support.tables import insert, make_table, rows_of

NOBODY = 65534  #: the second user of tests that run with the rights to become one


@dataclass(frozen=True, slots=True, kw_only=True)
class Passes:
    """One pass of each role."""

    initiator: InitiatorPass
    outcomes: Sequence[Outcome]
    cleaner: CleanerPass

    def said_of(self, entity: Entity) -> str:
        """Returns every reason that any role gave for what it did to ``entity``."""
        said = [c.because for c in self.initiator.considered if c.entity == entity]
        said += [o.message for o in self.outcomes if o.entry.entity == entity]
        said += [w.because for w in (*self.cleaner.failed, *self.cleaner.waiting) if w.entity == entity]
        return "\n".join(said)


def every_role(site: Site) -> Passes:
    """Runs each role once, as a scheduler does."""
    found = initiate(site)
    plan_batches(site)
    done = run_entries(site, [entry.id for entry in site.metastore.entries.queue()], InProcessRunner())
    settle()
    cleaned = clean(site)
    keep_house(site)
    return Passes(initiator=found, outcomes=done.outcomes, cleaner=cleaned)


def due_table(site: Site, warehouse: Path, name: str, *, writes: int = 3) -> Table:
    """Makes a table that is due for compaction, with two rows for each of ``writes`` and an aborted write."""
    table = make_table(site, warehouse, name)
    for value in range(writes):
        insert(site, table, [2 * value, 2 * value + 1])
    insert(site, table, [100], commits=False)
    return table


def is_compacted_and_cleaned(site: Site, table: Table) -> bool:
    """Returns true if one base is all that is left of the table's writes, with every row."""
    names = [name for name in os.listdir(table.location) if not name.startswith((".", "_"))]
    return len(names) == 1 and names[0].startswith("base_") and len(rows_of(site, table)) == 6


def everything_in(root: Path) -> dict[str, tuple[object, ...]]:
    """Returns kind, owner, mode, number of names, time of the last change, and content of everything below ``root``."""
    found: dict[str, tuple[object, ...]] = {}
    for path in [root, *sorted(root.rglob("*"))]:
        seen = path.lstat()
        content: object = None
        if stat.S_ISLNK(seen.st_mode):
            content = os.readlink(path)
        elif stat.S_ISREG(seen.st_mode):
            content = path.read_bytes()
        found[str(path)] = (seen.st_mode, seen.st_uid, seen.st_gid, seen.st_nlink, seen.st_mtime_ns, content)
    return found


def nest(top: Path, depth: int) -> None:
    """Makes directories ``d`` in each other, deeper than any path can say."""
    at = os.open(top, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("d", dir_fd=at)
        below = os.open("d", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    os.close(at)


def remove_tree(top: Path) -> None:
    """Removes a tree of any depth; ``shutil.rmtree`` gives up on a deep one."""
    subprocess.run(["rm", "-rf", str(top)], check=True)


@contextmanager
def meanwhile(act: Callable[[], None]) -> Iterator[None]:
    """Calls ``act`` again and again in a thread while the block runs, at least once."""
    ends, begun = Event(), Event()
    errors: list[BaseException] = []

    def run() -> None:
        try:
            while not ends.is_set():
                act()
                begun.set()
        except BaseException as error:  # noqa: BLE001 - raised below
            errors.append(error)
            begun.set()

    thread = Thread(target=run, name="meanwhile")
    thread.start()
    begun.wait()
    try:
        yield
    finally:
        ends.set()
        thread.join()
    for error in errors:
        raise error

"""The table of which kind of work survives a crash at which step, and the page rendered from it.

``python -m tests.support.crash_matrix`` writes docs/internals/crash-matrix.md. Tests are taken from their own parameters,
so a step that loses its case is noticed here; a step without a case must give a reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from compactor.base.steps import CommandStep, MirrorStep, Step, StoreStep, WriteStep
from tests.contract import test_restored
from tests.crash import test_hive2, test_quarantine, test_steps, test_writers
from tests.storage import test_crash

PAGE = Path(__file__).parents[2] / "docs/internals/crash-matrix.md"

ALIKE = "does there what it does in a minor or major"
REQUESTED = "is asked for by a person"
NOTHING_STAGED = "nothing is written, so nothing is staged or named"
NO_REQUEST = "there is no request and no transaction, only the cleaner"
NO_CLEANING = "Hive 2's own cleaner removes what is obsolete"
NOT_KEPT = "nothing is kept there: `compactor.quarantine` is not set, or the store cannot"
NO_MEMORY = "nothing is remembered of a Hive 2's metastore, in which nothing is timed out or cleaned"
NO_TRANSACTION = "Hive 2 has no transaction of a compaction, and the next call itself takes up what a dead one left"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A column: the steps at which a test kills, and for each of the others the reason why none does."""

    title: str
    test: str
    killed: frozenset[Step]
    reasons: Mapping[Step, str]


def _kind(title: str, test: str, killed: Iterable[Step], **reasons: str) -> Kind:
    """Builds a column; ``reasons`` are keyed by the role of the step (``initiator``, ``worker``, ``cleaner``,
    ``repair``, ``memory``).
    """
    known = frozenset(killed)
    reasons = {test_steps.QUARANTINE: NOT_KEPT} | reasons
    found = {
        step: reasons[test_steps.ROLE[step]] for step in Step if step not in known and test_steps.ROLE[step] in reasons
    }
    return Kind(title=title, test=test, killed=known, reasons=found)


_EACH = "crash/test_steps.py::test_a_crash_at_any_step_is_invisible_and_repaired"


def _of(store: str, kind: str) -> list[Step]:
    return [step for where, what, step in test_steps.CASES if (where, what) == (store, kind)]


def _chunked(store: str, kind: str) -> list[Step]:
    return [step for where, what, step in test_steps.CHUNKED if (where, what) == (store, kind)]


_CHUNKS = "crash/test_steps.py::test_a_crash_between_the_chunks_of_a_bounded_request"
_PARTS = "crash/test_steps.py::test_a_crash_within_what_is_done_in_parts"
_REMOVED = "crash/test_steps.py::test_a_crash_where_there_is_only_to_remove"
_SAME = dict.fromkeys((test_steps.WORKER, test_steps.CLEANER, test_steps.REPAIR, test_steps.MEMORY), ALIKE)
_ASKED = _SAME | {test_steps.INITIATOR: REQUESTED}
_EVERY = _SAME | {test_steps.INITIATOR: ALIKE}


def kinds() -> list[Kind]:
    """Returns the columns."""
    insert_only = [step for where, _, _, step in test_steps.INSERT_ONLY if where == "embedded"]
    split_tasks = [step for step, _ in test_steps.OF_SPLIT_TASKS]
    return [
        _kind("minor", _EACH, _of("embedded", "minor")),
        _kind("major", _EACH, _of("embedded", "major")),
        _kind("rebalance", _EACH, _of("embedded", "rebalance"), initiator=REQUESTED, memory=ALIKE),
        _kind(
            "group",
            "crash/test_steps.py::test_a_crash_between_the_members_of_a_group",
            [step for _, step, _ in test_steps.MEMBERS],
            **_EVERY,
        ),
        _kind(
            "cleaned group",
            "crash/test_steps.py::test_a_crash_between_the_entries_that_are_cleaned_together",
            [step for step, _ in test_steps.CLEANED_TOGETHER],
            **_EVERY,
        ),
        _kind("chunks", _CHUNKS, _chunked("embedded", "chunks"), **_EVERY),
        _kind("rest", _CHUNKS, _chunked("embedded", "rest"), **_EVERY),
        _kind("split unit", _PARTS, split_tasks, **_EVERY),
        _kind("slices", _PARTS, [step for step, _ in test_steps.OF_SLICES], **_EVERY),
        _kind("insert-only", "crash/test_steps.py::test_a_crash_over_an_insert_only_table", insert_only, **_EVERY),
        _kind(
            "clean-only",
            _REMOVED,
            [step for kind, step in test_steps.CLEANED if kind == "clean-only"],
            initiator=ALIKE,
            worker=NOTHING_STAGED,
            memory=ALIKE,
        ),
        _kind(
            "aborts",
            _REMOVED,
            [step for kind, step in test_steps.CLEANED if kind == "aborts"],
            memory=ALIKE,
            **dict.fromkeys(
                (test_steps.INITIATOR, test_steps.WORKER, test_steps.CLEANER, test_steps.REPAIR), NO_REQUEST
            ),
        ),
        _kind(
            "quarantine",
            "crash/test_quarantine.py::test_a_crash_while_directories_are_kept_or_erased",
            test_quarantine.STEPS,
            **_EVERY,
        ),
        _kind("Hive 3.1 major", _EACH, [*_of("hive3", "major"), *_of("hive3", "pair")], **_EVERY),
        _kind("Hive 3.1 minor", _EACH, _of("hive3", "minor"), **_EVERY),
        _kind("Hive 3.1 chunks", _CHUNKS, _chunked("hive3", "chunks"), **_EVERY),
        _kind(
            "beside Hive 2",
            "crash/test_hive2.py::test_a_crash_beside_hive_2_changes_no_row",
            test_hive2.STEPS,
            initiator=REQUESTED,
            worker=NO_TRANSACTION,
            cleaner=NO_CLEANING,
            repair=NO_TRANSACTION,
            memory=NO_MEMORY,
        ),
        _kind("object store", "storage/test_crash.py::test_a_crash_over_an_object_store", test_crash.STEPS, **_EVERY),
    ]


#: The tests that kill a person's command at each of its points.
COMMANDS = {
    CommandStep.SET_ASIDE: "crash/test_resolve.py::test_a_resolve_that_was_killed_after_it_set_a_directory_aside",
    CommandStep.KEPT: "crash/test_resolve.py::test_a_killed_resolve",
    CommandStep.TRANSACTIONS_RAISED: "crash/test_resolve.py::test_a_killed_advance",
    CommandStep.WRITE_IDS_RAISED: "crash/test_resolve.py::test_a_killed_resolve",
    CommandStep.PUT_BACK: "crash/test_restore.py::test_a_killed_restore_changes_no_row_and_a_second_call_goes_on",
    CommandStep.OUTPUT_TAKEN: "crash/test_restore.py::test_a_killed_restore_changes_no_row_and_a_second_call_goes_on",
}


_KILLED_WRITER = "crash/test_writers.py::test_a_killed_writer_wrote_everything_or_nothing"
_KILLED_CREATION = "crash/test_writers.py::test_a_killed_create_table_as_made_the_table_with_its_rows_or_none"
_KILLED_STREAM = "crash/test_writers.py::test_a_killed_stream_keeps_its_commits_and_nothing_of_what_was_opened_ahead"
_PAUSED_WRITER = "crash/test_writers.py::test_a_writer_that_was_paused_until_it_was_forgotten_names_nothing"
#: The tests that kill or suspend a program that writes, at each of its points.
WRITES = {
    step: (
        _KILLED_WRITER,
        _KILLED_CREATION,
        _KILLED_STREAM,
        *((_PAUSED_WRITER,) if step in test_writers.BEFORE_THE_LOCK else ()),
    )
    for step in WriteStep
}


_BY_S3 = "storage/test_taking_over.py::test_a_worker_that_is_killed_while_the_store_copies"
#: The tests that kill a worker whose file system or store copies by itself, at each of its points.
TAKEN_OVER = {
    StoreStep.RANGE_TAKEN: (
        _BY_S3,
        "integration/rewrite/test_taking_over.py::test_a_worker_that_is_killed_while_files_share_blocks",
    ),
    StoreStep.COMPLETED: (_BY_S3,),
}
_OF_MIRRORS = "integration/mirror/test_kills.py::test_a_pass_that_died_is_repeated"
#: The tests that kill a pass over a mirrored table, at each of its points.
MIRRORED = dict.fromkeys(
    MirrorStep,
    (_OF_MIRRORS, "integration/mirror/test_kills.py::test_passes_killed_among_writers_compactions_and_cleaners"),
)


def missing() -> list[str]:
    """Returns the cells that have neither a test nor a reason."""
    return [
        f"{kind.title}: {step.name}"
        for kind in kinds()
        for step in Step
        if step not in kind.killed and step not in kind.reasons
    ]


def page() -> str:
    """Renders the page."""
    columns = kinds()
    reasons = list(dict.fromkeys(reason for kind in columns for reason in kind.reasons.values()))
    killed = sum(len(kind.killed) for kind in columns)
    parts = [
        "# Where processes are killed",
        "",
        "Each row is a point between two effects (`compactor/base/steps.py`), each column a kind of work. At ● a process is",
        "killed by SIGKILL, mostly while a reader looks at the table again and again; then the next passes run. No row",
        f"differs before, during or after it, and nothing stays behind. {killed} cells are tests; a letter says why another",
        "is none. Rendered by",
        "`python -m tests.support.crash_matrix`.",
        "",
        f"| step | {' | '.join(kind.title for kind in columns)} |",
        f"|---{'|---' * len(columns)}|",
    ]
    for step in Step:
        cells = ("●" if step in kind.killed else _letter(reasons.index(kind.reasons[step])) for kind in columns)
        parts.append(f"| `{step.name}` {step.value} | {' | '.join(cells)} |")
    parts += ["", "| | why it is not killed there |", "|---|---|"]
    parts += [f"| {_letter(number)} | {reason} |" for number, reason in enumerate(reasons)]
    parts += ["", "| kind | test |", "|---|---|"]
    parts += [f"| {kind.title} | `{kind.test}` |" for kind in columns]
    parts += [
        "",
        "Commands of a person (`resolve`, `metastore advance`, `restore`) are killed too, and called again:",
        "",
    ]
    parts += ["| step | test |", "|---|---|"]
    parts += [f"| `{step.name}` {step.value} | `{COMMANDS[step]}` |" for step in CommandStep]
    parts += ["", "Programs that write rows into tables are killed, and paused until they are forgotten:", ""]
    parts += ["| step | tests |", "|---|---|"]
    parts += [
        f"| `{step.name}` {step.value} | {', '.join(f'`{test}`' for test in WRITES[step])} |" for step in WriteStep
    ]
    parts += [
        "",
        "So are workers whose file system or store copies stripes by itself:",
        "",
        "| step | tests |",
        "|---|---|",
    ]
    parts += [
        f"| `{step.name}` {step.value} | {', '.join(f'`{test}`' for test in TAKEN_OVER[step])} |" for step in StoreStep
    ]
    parts += ["", "## Passes over mirrored tables", "", "| step | tests |", "|---|---|"]
    parts += [
        f"| `{step.name}` {step.value} | {', '.join(f'`{test}`' for test in MIRRORED[step])} |" for step in MirrorStep
    ]
    return "\n".join([*parts, *_restored()]) + "\n"


def _restored() -> list[str]:
    """Renders the table of the copies of a database that are put back."""
    whens = (test_restored.COMMITTED, test_restored.CLEANED, test_restored.WRITTEN)
    cases = set(test_restored.CASES)
    parts = [
        "",
        "## Where a copy of the database is taken that is put back later",
        "",
        "Each row is the point of a kind of work at which the metastore's database is copied, as a site's backup does it;",
        "each column the time at which the copy is put back. Then hours pass, and every role runs three times. At ● every",
        "row that a snapshot could read before is still in a file with its name, though nothing is remembered outside of",
        f"the database; where it is remembered, every role stops. {len(cases)} cases, on SQLite and PostgreSQL. Where",
        "a cell is empty, the copy is no older than the database.",
        "",
        f"| work | step | {' | '.join(whens)} |",
        f"|---|---{'|---' * len(whens)}|",
    ]
    for kind, reached in test_restored.REACHED.items():
        for step in reached:
            cells = ("●" if (kind, step, when) in cases else "" for when in whens)
            parts.append(f"| {kind} | `{step.name}` | {' | '.join(cells)} |")
    tests = ("test_no_row_is_lost", "test_every_role_stops_where_the_metastore_is_remembered")
    return [*parts, "", f"Tests: {' and '.join(f'`contract/test_restored.py::{test}`' for test in tests)}."]


def _letter(number: int) -> str:
    return chr(ord("a") + number)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")

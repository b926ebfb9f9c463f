"""The size of a test run: `make test` answers in minutes, `make test-all` (WHOLE=1) takes the time it needs."""

from __future__ import annotations

import os
import re
from typing import TypeVar

#: True under `make test-all`: nothing is left out, and everything has its full size.
WHOLE = os.environ.get("WHOLE") == "1"

#: Folders that `make test` leaves to `make test-all`, like tests marked ``whole``: they cost minutes, memory or downloads.
WHOLE_FOLDERS = ("tests/cluster", "tests/live", "tests/packaging", "tests/torture", "tests/integration/spark")

#: Further servers of the same kind and further combinations, by the ids of their tests: what is said over PostgreSQL and S3
#: is said over MariaDB, Azure and Google in `make test-all`.
WHOLE_IDS = re.compile(
    "|".join(
        (
            r"tests/contract/.*\[.*(mariadb|mysql|postgres(ql-)?1[28])",
            r"tests/contract/test_history\.py.*\[(postgres31|sqlite)",
            r"tests/contract/test_statistics\.py.*(postgres31|\[a table-sqlite|\[a partition-postgres4-_)",
            r"tests/storage/(test_abfs|.*\[.*(abfs|\bgs\b))",
            r"tests/storage/test_tables\.py.*\[hdfs(?!-major)",
            r"tests/contract/test_history\.py::test_the_checker_notices_a_guard_that_is_missing\[(?!claim)",
            r"tests/contract/test_kept_decisions\.py.*\[postgres4",
            r"tests/contract/test_restored\.py.*(no_row.*\[postgres4-(minor|rebalance|major-[ALS])|remembered.*\[(sqlite|postgres4-major))",
            r"tests/crash/test_hive2\.py.*(-new\]|\[(?!RECORDED|ATTEMPT_WRITTEN|NAMED_FIRST|COMMITTED))",
            r"tests/crash/test_restore\.py.*\[(PUT_BACK-|OUTPUT_TAKEN-1)",
            r"tests/crash/test_statistics\.py.*-3\]",
            r"tests/crash/test_steps\.py.*repaired\[embedded-minor-(?!RECORDED|NAMED_FIRST|COMMITTED|HIDDEN|REMOVED|REPAIR_H)",
            r"tests/crash/test_steps\.py.*repaired\[embedded-major-(ENQ|CLAIM|LOCK|VERIF|ATTEMPT_S|MARKED|CLEANED|CLEANING)",
            r"tests/crash/test_steps\.py.*repaired\[hive3-pair-(?!NAMED)",
            r"tests/contract/test_hive3_fixtures\.py.*g4_stripes/s[23]",
            r"tests/crash/test_resolve\.py.*\[WRITE_IDS_RAISED\]",
            r"tests/crash/test_hive2\.py.*\[(RECORDED|ATTEMPT_WRITTEN)-",
            r"tests/crash/test_quarantine\.py.*\[(minor-QUARANTINE_RECORDED|major-QUARANTINED)",
            r"tests/crash/test_suspended\.py.*\[(HIDDEN|RECORDED)",
            r"tests/crash/test_writers\.py::test_a_killed_create.*\[(WRITE_PARTITIONS_ADDED|WRITE_NAMED)\]",
            r"tests/crash/test_writers\.py::test_a_killed_stream.*\[WRITE_(?!DURABLE|NAMED_FIRST|COMMITTED)",
            r"tests/crash/test_writers\.py::test_a_(stream|writer)_that_was_paused.*\[WRITE_(BEGUN|ATTEMPTED|STAGED)\]",
            r"tests/crash/test_steps\.py.*repaired\[embedded-major-(TXN|REC|STAGING_REMOVED|HIDDEN)",
            r"tests/crash/test_steps\.py.*members_of_a_group\[(major-NAMED-|minor-NAMED)",
            r"tests/crash/test_steps\.py.*cleaned_together\[(HIDDEN-1|REMOVED-3|CLEANED-1)",
            r"tests/crash/test_steps\.py.*insert_only_table\[embedded-major-(ORC-[RH]|PARQUET-A|PARQUET-COMMITTING|TEXT-[AR])",
            r"tests/crash/test_steps\.py.*in_parts\[major-compactor\.split.*(WRITTEN-9|STARTED-9)\]",
            r"tests/crash/test_steps\.py.*only_to_remove\[(clean-only-(RECORDED|CLEANED|REPAIR_ABORTED)|aborts-CLEANING)",
            r"tests/crash/test_steps\.py.*insert_only_table\[embedded-minor-",
            r"tests/crash/test_steps\.py.*members_of_a_group\[major-(CLAIMED|TXN_|REC|ATTEMPT|ACCEPT|MANIFEST|STAGING)",
            r"tests/crash/test_steps\.py.*only_to_remove\[clean-only-(CLAIMED|TXN_OPENED|LOCKED|COMMITTING|CLEANING|REMOVED)",
            r"tests/crash/test_steps\.py.*in_parts\[major-compactor\.(split.*-(2|8)\]|hive.*-(2|7)\])",
            r"tests/crash/test_writers\.py.*\[inserts-(WRITE_BEGUN|WRITE_ATTEMPTED|WRITE_DURABLE|WRITE_COMMITTING|WRITE_NAMED)\]",
            r"tests/storage/test_programs\.py.*\[hdfs",
            r"tests/crash/test_steps\.py.*\[hive3-(major|minor|chunks)-(?!NAMED_FIRST|COMMITTED)",
            r"tests/crash/test_steps\.py.*\[embedded-rebalance-(?!NAMED_FIRST|COMMITTED)",
            r"tests/crash/test_steps\.py.*\[embedded-(chunks|rest)-(?!ACCEPTED|NAMED_FIRST|COMMITTED)",
            r"tests/crash/test_steps\.py::test_a_crash_within_what_is_done_in_parts\[minor-",
            r"tests/unit/worker/test_planning\.py::.*\[(?!minor-(none|slices)-).*-delay\]",
        ),
    )
)

_T = TypeVar("_T")


def sized(*, short: _T, whole: _T) -> _T:
    """Returns ``whole`` under `make test-all`, else ``short``, which must meet the same rule in less of everything."""
    return whole if WHOLE else short

"""The table of Hive's tests names only existing tests of ours, and the page is rendered from it."""

from __future__ import annotations

from tests.support.hive_tests import PAGE, exists, lines, page, unused_reasons


def test_every_test_that_is_named_exists() -> None:
    named = {line.covered_by for line in lines() if line.covered_by is not None}
    assert len(named) > 60
    assert sorted(name for name in named if not exists(name)) == []


def test_the_classes_are_whole() -> None:
    """Each class has as many names as Hive has test methods."""
    count: dict[str, int] = {}
    for line in lines():
        count[line.group] = count.get(line.group, 0) + 1
    expected = {
        "TestTxnHandler": 60,
        "TestDbTxnManager": 20,
        "TestDbTxnManager2": 125,
        "TestDbTxnManagerIsolationProperties": 5,
        "TestCompactionTxnHandler": 25,
        "TestLockRequestBuilder": 33,
        "TestHiveMetaStoreTxns": 14,
    }
    assert {group: count[group] for group in expected} == expected


def test_every_reason_is_used() -> None:
    assert unused_reasons() == set()


def test_the_page_is_what_is_rendered_now() -> None:
    assert PAGE.read_text("utf-8") == page(), "run `python -m tests.support.hive_tests`"

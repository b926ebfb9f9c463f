"""Consistency of the lock rules; ``test_statement_locks`` checks them case by case."""

from __future__ import annotations

import itertools

import pytest

from compactor.locking import statement_rules
from compactor.locking.lock_types import LockType
from compactor.locking.statement_rules import ALTER, RULES, AccessKind, Command, OldLock, Operation, Rule
from compactor.settings.catalogue import lookup
from compactor.settings.setting import SettingUnit


@pytest.mark.parametrize("kind", AccessKind)
def test_every_access_kind_has_a_final_rule(kind: AccessKind) -> None:
    """The last rule of each kind applies whatever the table and settings; only MERGE requires a transactional table."""
    last = [rule for rule in RULES if rule.kind is kind][-1]
    assert last.when == ()
    assert last.transactional is (True if kind is AccessKind.MERGE_INSERT else None)


def _covers(former: Rule, latter: Rule) -> bool:
    kind = former.transactional in (None, latter.transactional)
    return former.kind is latter.kind and kind and set(former.when) <= set(latter.when)


def test_no_rule_is_shadowed_by_an_earlier_one() -> None:
    assert [(a, b) for a, b in itertools.combinations(RULES, 2) if _covers(a, b)] == []


@pytest.mark.parametrize("key", sorted({key for rule in RULES for key, _ in rule.when}))
def test_rules_ask_for_boolean_settings(key: str) -> None:
    assert lookup(key).unit is SettingUnit.BOOLEAN


def test_readers_never_exclude_readers() -> None:
    locks = {rule.lock for rule in RULES if rule.kind is AccessKind.READ}
    assert locks == {None, LockType.SHARED_READ}
    assert all(rule.operation is Operation.SELECT for rule in RULES if rule.kind is AccessKind.READ)


def test_the_forms_of_alter_table_differ_in_their_words() -> None:
    assert len({command.words for command in ALTER}) == len(ALTER)
    assert all(word == word.lower() for command in ALTER for word in command.words)


def test_a_commands_name_is_its_words_in_capitals() -> None:
    assert Command(words=("add", "columns"), kind=AccessKind.DDL_EXCLUSIVE).name == "ADD COLUMNS"
    assert statement_rules.TRUNCATE.name == "TRUNCATE TABLE"


def test_requesting_a_compaction_locks_nothing() -> None:
    (compact,) = (command for command in ALTER if command.words == ("compact",))
    assert (compact.kind, compact.old_lock) == (AccessKind.DDL_NO_LOCK, None)


def test_soft_drops_depend_on_boolean_settings() -> None:
    soft = {
        c.softened_by
        for c in (*ALTER, statement_rules.TRUNCATE, statement_rules.DROP_TABLE)
        if c.softened_by is not None
    }
    assert all(lookup(key).unit is SettingUnit.BOOLEAN for key in soft)
    assert statement_rules.DROP_TABLE.old_lock is OldLock.TABLE

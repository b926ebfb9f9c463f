"""The tables of data hold together; ``test_plan`` reads them case by case."""

from __future__ import annotations

import itertools

import pytest

from compactor.locking import statement_rules
from compactor.locking.lock_types import LockType
from compactor.locking.statement_rules import ALTER, RULES, Command, Old, Operation, Rule, What
from compactor.settings.catalogue import lookup
from compactor.settings.setting import SettingUnit


@pytest.mark.parametrize("what", What)
def test_every_deed_has_a_rule_in_the_end(what: What) -> None:
    """Whatever the table and the settings are, the last rule of a deed fits; only MERGE wants its own kind of table."""
    last = [rule for rule in RULES if rule.what is what][-1]
    assert last.when == ()
    assert last.transactional is (True if what is What.MERGE_INSERT else None)


def _covers(former: Rule, latter: Rule) -> bool:
    kind = former.transactional in (None, latter.transactional)
    return former.what is latter.what and kind and set(former.when) <= set(latter.when)


def test_no_rule_is_in_the_shade_of_a_former_one() -> None:
    assert [(a, b) for a, b in itertools.combinations(RULES, 2) if _covers(a, b)] == []


@pytest.mark.parametrize("key", sorted({key for rule in RULES for key, _ in rule.when}))
def test_what_rules_ask_for_are_switches(key: str) -> None:
    assert lookup(key).unit is SettingUnit.BOOLEAN


def test_readers_never_keep_others_from_reading() -> None:
    locks = {rule.lock for rule in RULES if rule.what is What.READ}
    assert locks == {None, LockType.SHARED_READ}
    assert all(rule.operation is Operation.SELECT for rule in RULES if rule.what is What.READ)


def test_the_forms_of_alter_table_are_told_apart_by_their_words() -> None:
    assert len({command.words for command in ALTER}) == len(ALTER)
    assert all(word == word.lower() for command in ALTER for word in command.words)


def test_names_are_the_words_in_capitals() -> None:
    assert Command(words=("add", "columns"), what=What.DDL_EXCLUSIVE).name == "ADD COLUMNS"
    assert statement_rules.TRUNCATE.name == "TRUNCATE TABLE"


def test_to_ask_for_a_compaction_locks_nothing() -> None:
    (compact,) = (command for command in ALTER if command.words == ("compact",))
    assert (compact.what, compact.old) == (What.DDL_NO_LOCK, None)


def test_dropping_softly_is_a_switch() -> None:
    soft = {c.soft for c in (*ALTER, statement_rules.TRUNCATE, statement_rules.DROP_TABLE) if c.soft is not None}
    assert all(lookup(key).unit is SettingUnit.BOOLEAN for key in soft)
    assert statement_rules.DROP_TABLE.old is Old.TABLE

"""Statement → form, action, locks; statement → refusal with its place: ``statements.txt``, case by case."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path

import pytest

from compactor.base.errors import CompactorError, NotFound
from compactor.locking.statement_locks import TableFacts, locks
from compactor.locking.statement_rules import Accessing, Name
from compactor.settings.precedence import Settings
from compactor.statements import parsed_actions
from compactor.statements.parser import parse, parse_script
from compactor.statements.statement_list import FORMS

CASES = Path(__file__).with_name("statements.txt")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Partition:
    name: str
    values: tuple[str, ...]


def look(name: Name) -> TableFacts:
    """``part`` has the partitions p=1 and p=2, ``plain`` is not transactional; ``nowhere`` is not there."""
    if name.table == "nowhere":
        raise NotFound(f"table {name} is not there")
    partitions = tuple(_Partition(name=f"p={value}", values=(value,)) for value in "12") if name.table == "part" else ()
    return TableFacts(
        database=name.database or "default",
        table=name.table,
        transactional=name.table != "plain",
        keys=("p",) if partitions else (),
        partitions=partitions,
    )


def outcome(text: str) -> str:
    """The lines below a case of ``statements.txt``."""
    try:
        statement = parse_script(text)[-1] if ";" in text else parse(text)
    except CompactorError as error:
        return f"! {error}"
    of: Accessing = statement
    if isinstance(statement.action, parsed_actions.ExplainLocks):
        of = statement.action.explained
    shown = [f"{statement.name} [{statement.place}]", f"  {_action(statement.action)}"]
    try:
        return "\n".join([*shown, *(f"  {planned}" for planned in locks(of, look, Settings()))])
    except CompactorError as error:
        return "\n".join([*shown, f"  no locks: {error}"])


_SHOWN = (
    parsed_actions.InsertTarget
    | parsed_actions.WhenMatched
    | parsed_actions.WhenNotMatched
    | parsed_actions.Select
    | parsed_actions.BranchInsert
)


def _action(action: parsed_actions.Action | _SHOWN) -> str:
    """The action with those of its fields that the text has set."""
    given = [(one.name, getattr(action, one.name), one.default) for one in fields(action)]
    told = [f"{name}={_value(value)}" for name, value, default in given if value != default]
    return f"{type(action).__name__}({', '.join(told)})"


def _query(query: parsed_actions.Query) -> str:
    """Its pieces, and where it names tables."""
    named = [f"{one.table} {one.start}-{one.end}{' with an alias' if one.aliased else ''}" for one in query.places]
    return f"{query.pieces} of {', '.join(named) or 'no table'}"


def _value(value: object) -> str:
    if isinstance(value, Name):
        return str(value)
    if isinstance(value, parsed_actions.ValuesLiteral):
        return f"{value.word} {value.value!r}".strip()
    if isinstance(value, parsed_actions.Query):
        return _query(value)
    if isinstance(value, _SHOWN):
        return _action(value)
    if isinstance(value, tuple):
        return "(" + ", ".join(map(_value, value)) + ")"
    return value.name if hasattr(value, "accesses") else repr(value)


def cases() -> list[tuple[str, str]]:
    blocks = CASES.read_text("utf-8").strip().split("\n\n")
    return [(text.removeprefix("> "), told) for text, _, told in (block.partition("\n") for block in blocks)]


@pytest.mark.parametrize(("text", "told"), cases(), ids=[text[:60] for text, _ in cases()])
def test_a_statement_becomes_its_form_its_action_and_its_locks(text: str, told: str) -> None:
    assert outcome(text) == told


def test_every_form_of_the_list_has_a_case() -> None:
    """TABLES 15: the list is closed, and what is parsed is on it."""
    listed = {form.name for form in FORMS}
    names = {told.partition(" [")[0] for _, told in cases() if not told.startswith("!")}
    others = names - listed
    assert {
        name for name in others if not name.startswith("ALTER TABLE ")
    } == set()  # those that are not run share a form
    assert names & listed | ({"ALTER TABLE …"} if others else set()) == listed


def test_each_form_is_done_or_has_its_words() -> None:
    assert [form.name for form in FORMS if [bool(form.how), bool(form.refused), form.spark].count(True) != 1] == []

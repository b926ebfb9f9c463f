"""Requests and rows."""

from __future__ import annotations

import dataclasses

import pytest

from compactor.compaction.queue_entry import Entity, Entry, Request
from compactor.compaction.states import CompactionType, State


def test_an_entity_prints_as_users_write_it() -> None:
    assert str(Entity(database="db", table="t")) == "db.t"
    assert str(Entity(database="db", table="t", partition="p=a b%3Dc/q=3")) == "db.t/p=a b%3Dc/q=3"


def test_table_and_empty_partition_name_differ() -> None:
    assert Entity(database="db", table="t") != Entity(database="db", table="t", partition="")


def test_entries_and_requests_are_immutable() -> None:
    entry = Entry(id=1, entity=Entity(database="d", table="t"), state=State.INITIATED, type=CompactionType.MINOR)
    with pytest.raises(dataclasses.FrozenInstanceError):
        entry.state = State.WORKING  # type: ignore[misc]
    with pytest.raises(TypeError):
        entry.properties["k"] = "v"  # type: ignore[index]
    request = Request(entity=entry.entity, type=CompactionType.MAJOR, initiator="compactor-h-x")
    with pytest.raises(TypeError):
        request.properties["k"] = "v"  # type: ignore[index]

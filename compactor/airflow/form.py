"""The form of DAG ``compact_table``: its fields, and how their values are parsed, without a database."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from airflow.sdk import Param

from compactor.base.errors import BadSetting, CompactorError, NotFound

TYPES = {"minor": "Minor: merge deltas", "major": "Major: a new base", "rebalance": "Rebalance: even out the buckets"}
#: The word that a TriggerDagRunOperator adds to a conf for OpenLineage's provider.
_OF_OPENLINEAGE = "openlineage"
_REBALANCE, _WHERE = "Rebalance", "Where it runs"


def fields() -> dict[str, Param]:
    """Returns the fields.

    The first task checks free texts, because its messages are better than a schema's.
    """
    return {
        "table": Param(
            "",
            type="string",
            title="Table",
            description="DATABASE.TABLE. Separate several with commas; * stands for any characters, as in demo.f*",
        ),
        "partition": Param(
            None,
            type=["null", "string"],
            title="Partition",
            description="For one table: as in SHOW PARTITIONS, or k=v,k=v with plain values. Empty: every partition.",
        ),
        "type": Param(
            "major",
            type="string",
            enum=list(TYPES),
            values_display=TYPES,
            title="Type",
            description="A minor compaction reads deltas only; a major one reads everything and applies deletes.",
        ),
        "dry_run": Param(
            False,
            type="boolean",
            title="Dry run",
            description="Only show what would be read, copied and written, in the log and the return value of task plan.",
        ),
        "wait": Param(
            True,
            type="boolean",
            title="Wait",
            description="Wait until a worker has finished. A failure fails the run.",
        ),
        **_rebalance_fields(),
        **_placement_fields(),
    }


def _rebalance_fields() -> dict[str, Param]:
    return {
        "buckets": Param(
            None,
            type=["null", "integer"],
            minimum=1,
            title="Files",
            description="The number of files the rows are distributed to. Empty: as many as there are.",
            section=_REBALANCE,
        ),
        "order_by": Param(
            None,
            type=["null", "string"],
            title="Order by",
            description="Columns by which rows are sorted, such as day desc, id. Empty: their order stays.",
            section=_REBALANCE,
        ),
    }


def _placement_fields() -> dict[str, Param]:
    return {
        "pool": Param(
            None,
            type=["null", "string"],
            title="Pool",
            description="Compaction pool. Empty: the table's own.",
            section=_WHERE,
        ),
        "properties": Param(
            {},
            type=["null", "object"],
            title="Properties",
            description='WITH OVERWRITE TBLPROPERTIES, for example {"compactor.hive.compactor.job.queue": "etl"}',
            section=_WHERE,
        ),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class FormValues:
    """A filled-in form: names or patterns of tables, and the other arguments of ``request_compaction``."""

    tables: tuple[str, ...]
    arguments: Mapping[str, Any]
    dry_run: bool = False


def must_know_words(dag_id: str, conf: Mapping[str, Any] | None, known: Collection[str]) -> None:
    """Checks that the conf of a run has only words that its DAG knows.

    A run without one of them would do something else.

    Raises:
        BadSetting: it has others.
    """
    unknown = [word for word in conf or {} if word not in known and word != _OF_OPENLINEAGE]
    if unknown:
        close = [near for word in unknown for near in difflib.get_close_matches(str(word), known, n=1)]
        raise BadSetting(
            f"the conf of DAG {dag_id} has {', '.join(map(repr, unknown))}; expected: "
            + (", ".join(known) if known else "no conf")
            + (f"; did you mean {' and '.join(close)}?" if close else ".")
            + " Nothing was done."
        )


def parse_form(parameters: Mapping[str, Any]) -> FormValues:
    """Parses the form's values.

    Raises:
        NotFound: the form names no table.
        CompactorError: values contradict each other, or a property is not text.
    """
    tables = tuple(name for name in (part.strip() for part in str(parameters.get("table") or "").split(",")) if name)
    for name in tables or ("",):
        if name.count(".") != 1 or not all(name.split(".")):
            raise NotFound(f"table is {name!r}; expected: DATABASE.TABLE, for example demo.flights")
    partition, kind = _text(parameters, "partition"), parameters.get("type") or "major"
    buckets, order_by = parameters.get("buckets"), _text(parameters, "order_by")
    if partition is not None and (len(tables) > 1 or "*" in tables[0]):
        raise CompactorError(f"partition {partition} needs one table, but {', '.join(tables)} are several; name one")
    if kind != "rebalance" and (buckets is not None or order_by is not None):
        raise CompactorError(
            f"files and order are for a rebalance, but the type is {kind}; choose rebalance or empty them"
        )
    properties = dict(parameters.get("properties") or {})
    for key, value in properties.items():
        if not isinstance(value, str):
            raise CompactorError(
                f'property {key} is {value!r}; expected: text, as in TBLPROPERTIES, for example "{key}": "{value}"'
            )
    return FormValues(
        tables=tables,
        dry_run=bool(parameters.get("dry_run")),
        arguments={
            "partition": partition,
            "type": kind,
            "pool": _text(parameters, "pool"),
            "properties": properties,
            "buckets": None if buckets is None else int(buckets),  # JSON Schema takes 2.0 for an integer
            "order_by": order_by,
        },
    )


def _text(parameters: Mapping[str, Any], key: str) -> str | None:
    return str(parameters.get(key) or "").strip() or None

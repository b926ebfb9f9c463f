"""Options of a read are checked by name and value."""

from __future__ import annotations

import pytest
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

from compactor.base.errors import BadSetting
from compactor.spark_tables.data_source_options import (
    CREATES,
    add_source,
    collect_sources,
    format_creation,
    parse_read_options,
    parse_stream_request,
    parse_write_request,
)
from compactor.spark_tables.keeper_requests import (
    BeginWrite,
    Creation,
    FrameSource,
    MetastorePlace,
    PlanScan,
    SeenCommits,
)


def test_options_become_a_request() -> None:
    given = {
        "Table": "db.t",
        "columns": " a, b ",
        "FILTER": "a > 1",
        "row_ids": "TRUE",
        "versionAsOf": "17",
        "metastore": "m",
        "config": "/c",
        "snapshot": "s",
        "split_bytes": "2m",
    }
    found = parse_read_options(given, "app")
    assert found.split_bytes == 2 << 20
    assert found.request == PlanScan(
        place=MetastorePlace(metastore="m", config="/c", application="app"),
        table="db.t",
        columns=("a", "b"),
        row_filter="a > 1",
        row_ids=True,
        as_of=17,
        snapshot="s",
    )


def test_without_columns_all_are_meant() -> None:
    assert parse_read_options({"table": "db.t", "option.table": "db.t"}, "").request.columns is None


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "no table is named"),
        ({"table": "db.t", "path": "/x"}, "no option 'path'"),
        ({"table": "db.t", "row_ids": "yes"}, "expected true or false"),
        ({"table": "db.t", "versionAsOf": "-1"}, "versionasof is '-1'; expected a whole number"),
        ({"table": "db.t", "split_bytes": "0"}, "expected a number of bytes"),
    ],
)
def test_what_is_wrong_is_named(given: dict[str, str], message: str) -> None:
    with pytest.raises(BadSetting, match=message):
        parse_read_options(given, "")


def test_options_of_a_write_become_a_request() -> None:
    place = MetastorePlace(application="app")
    wanted = BeginWrite(place=place, table="db.t", overwrite=True, time_zone="Europe/Berlin")
    assert parse_write_request({"table": "db.t", "time_zone": "Europe/Berlin"}, "app", overwrite=True) == wanted
    with pytest.raises(BadSetting, match="no option 'columns'"):
        parse_write_request({"table": "db.t", "columns": "a"}, "app", overwrite=False)


def test_a_write_may_be_a_batch_of_a_stream() -> None:
    found = parse_write_request({"table": "db.t", "stream": "a-1", "batch": "7"}, "app", overwrite=False)
    assert isinstance(found, BeginWrite)
    assert (found.stream, found.batch) == ("a-1", 7)
    for given, message in (
        ({"stream": "a"}, "set both or neither"),
        ({"batch": "1"}, "set both or neither"),
        ({"stream": "a", "batch": "-1"}, "batch is '-1'; expected a whole number"),
        ({"stream": "a/b", "batch": "1"}, "stream is 'a/b'; expected at most 128 letters"),
    ):
        with pytest.raises(BadSetting, match=message):
            parse_write_request({"table": "db.t", **given}, "app", overwrite=False)


def test_a_stream_has_a_name() -> None:
    found = parse_stream_request(
        {"table": "db.t", "stream": "s", "checkpointLocation": "/c", "queryName": "q"}, "app", overwrite=True
    )
    assert found == BeginWrite(place=MetastorePlace(application="app"), table="db.t", overwrite=True, stream="s")
    with pytest.raises(BadSetting, match="no stream is named"):
        parse_stream_request({"table": "db.t"}, "app", overwrite=False)
    with pytest.raises(BadSetting, match="no option 'batch'"):
        parse_stream_request({"table": "db.t", "stream": "s", "batch": "1"}, "app", overwrite=False)


def test_a_table_to_be_created_travels_as_an_option() -> None:
    wanted = Creation(
        columns=(("a", "int"), ("k", "struct<x:string>")),
        partitioned_by=("k",),
        clustered_by=("a",),
        buckets=2,
        location="/w/t",
        properties=(("orc.compress", "ZSTD"),),
    )
    request = parse_write_request({"table": "db.t", CREATES: format_creation(wanted)}, "app", overwrite=False)
    assert request == BeginWrite(place=MetastorePlace(application="app"), table="db.t", overwrite=False, creates=wanted)


def source(table: str) -> FrameSource:
    commits = SeenCommits(table_id=7, write_ids=f"{table}:3:9223372036854775807::")
    return FrameSource(metastore="default", config=None, table=table, commits=commits, snapshot="s")


def test_each_source_of_the_columns_is_there_once() -> None:
    kinds = StructType([StructField("a", IntegerType()), StructField("b", StringType())])
    both = [*add_source(kinds, source("d.t")), *add_source(kinds, source("d.u")), *kinds]
    assert collect_sources(both) == (source("d.t"), source("d.u"))
    assert [(field.name, field.dataType) for field in both[:2]] == [("a", IntegerType()), ("b", StringType())]
    assert collect_sources(kinds) == ()

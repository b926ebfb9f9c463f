from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compactor.compaction.location_text import (
    ALL_OTHERS,
    common_spelling,
    find_covers,
    is_inside,
    map_aliases,
    normalise_location,
)


@pytest.mark.parametrize(
    "locations",
    [
        (
            "/w/t",
            "/w/t/",
            "//w//t",
            "/w/./t",
            "/w/x/../t",
            "/../w/t",
            "file:/w/t",
            "file:///w/t",
            "FILE://localhost/w/t/",
        ),
        (
            "hdfs://nn/w/t",
            "hdfs://NN:8020/w/t",
            "hdfs://ann@nn:9000/w//t/",
            "webhdfs://nn:9870/w/t",
            "swebhdfs://nn/w/t",
        ),
        ("s3://b/w/t", "s3a://b/w/t/", "s3n://B/w//t", "S3A://b/w/x/../t"),
        ("gs://b/t", "gcs://b/t/"),
        (
            "abfs://c@a.dfs.core.windows.net/t",
            "abfss://c@a.dfs.core.windows.net/t",
            "wasbs://c@a.blob.core.windows.net/t",
            "abfss://C@A.dfs.core.windows.net//t",
        ),
        ("hdfs://nn/w/a b", "hdfs://nn/w/a%20b"),
        ("hdfs://nn/w/k=ü", "hdfs://nn/w/k=%C3%BC", "hdfs://nn/w/k=%c3%bc"),
        ("hdfs://nn", "hdfs://nn/", "hdfs://nn:8020//", "hdfs://nn/x/.."),
    ],
    ids=lambda found: found[0],
)
def test_spellings_of_one_place(locations: tuple[str, ...]) -> None:
    """PROTOCOL 11.13"""
    assert len({normalise_location(location) for location in locations}) == 1


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("/w/t", "/w/T"),
        ("/w/t", "/w/t2"),
        ("/w/t", "hdfs://nn/w/t"),
        ("hdfs://nn/w/t", "hdfs://other/w/t"),
        ("s3://b/t", "s3://c/t"),
        ("s3://b/t", "gs://b/t"),
        ("abfs://c@a.dfs.core.windows.net/t", "abfs://d@a.dfs.core.windows.net/t"),
        ("/w/t/p=a%2Fb", "/w/t/p=a/b"),
        ("/w/t/p=a%2Fb", "/w/t/p=a%252Fb"),
        ("/w/t/p=a%25b", "/w/t/p=a%b"),
        ("/w/t/%2E%2E/x", "/w/x"),
    ],
)
def test_different_places(one: str, other: str) -> None:
    """A value of a partition that has a slash or a percent sign is one name."""
    assert normalise_location(one) != normalise_location(other)


def test_a_location_without_scheme_or_authority_is_of_the_default_file_system() -> None:
    assert (
        normalise_location("/w/t", default="hdfs://NS1:8020")
        == normalise_location("hdfs://ns1/w/t")
        == "hdfs://ns1/w/t"
    )
    assert normalise_location("hdfs:///w/t", default="hdfs://ns1") == "hdfs://ns1/w/t"
    assert normalise_location("hdfs:///w/t", default="file:///") == "hdfs:///w/t"
    assert normalise_location("s3a://b/t", default="hdfs://ns1") == "s3://b/t"


def test_the_hosts_of_a_cluster_stand_for_its_name() -> None:
    aliases = map_aliases({"NS1": ["nn1.example", "NN2.example:9870"], "other": []})
    spelt = ("hdfs://ns1/t", "hdfs://nn1.example:8020/t", "webhdfs://nn2.EXAMPLE:9870/t")
    assert {normalise_location(one, aliases=aliases) for one in spelt} == {"hdfs://ns1/t"}


def test_names_that_lead_to_one_address_are_one_cluster() -> None:
    aliases = map_aliases({"ns1": ["gw:9870"], "ns2": ["GW:9870"], "far": ["gw:9871"]})
    spelt = [normalise_location(f"hdfs://{name}/t", aliases=aliases) for name in ("ns1", "NS2:8020", "far", "other")]
    assert spelt == ["hdfs://ns1/t", "hdfs://ns1/t", "hdfs://far/t", "hdfs://other/t"]
    assert normalise_location("s3://ns2/t", aliases=aliases) == "s3://ns2/t"


def test_with_an_address_for_all_others_every_authority_is_one_cluster() -> None:
    aliases = map_aliases({ALL_OTHERS: ["gw:9870"], "same": ["gw:9870"], "far": ["nn:9870"]})
    spelt = {
        normalise_location(one, aliases=aliases)
        for one in ("hdfs:///t", "hdfs://x/t", "hdfs://same/t", "webhdfs://y:1/t")
    }
    assert len(spelt) == 1
    assert normalise_location("hdfs://far/t", aliases=aliases) == "hdfs://far/t"


_NAMES = st.lists(st.sampled_from(["a", "b", "..", ".", "", "p=%2F", "%20", "ü"]), max_size=6)


@given(_NAMES, st.sampled_from(["", "file:", "hdfs://nn", "s3a://b"]))
def test_normalising_twice_changes_nothing(names: list[str], root: str) -> None:
    location = normalise_location(f"{root}/{'/'.join(names)}")
    assert normalise_location(location) == location
    assert not location.endswith("/") or location.endswith("://")


def test_inside_is_by_whole_names() -> None:
    assert is_inside("file:///w/t/p=1", "file:///w/t")
    assert is_inside("file:///w", "file://")
    assert not is_inside("file:///w/t2", "file:///w/t")
    assert not is_inside("file:///w/t", "file:///w/t")


def test_a_few_directories_cover_many_tables() -> None:
    tables = [f"hdfs://ns/wh/managed/d{number}.db/t" for number in range(40)]
    assert find_covers(tables) == ["hdfs://ns/wh/managed"]
    assert find_covers([*tables[:3], "s3://b/x/t", "s3://b"]) == [f"hdfs://ns/wh/managed/d{n}.db" for n in range(3)] + [
        "s3://b"
    ]
    assert find_covers([]) == []
    assert find_covers([f"s3://b{number}/t" for number in range(40)]) == sorted(
        f"s3://b{number}" for number in range(40)
    )


@pytest.mark.parametrize(
    ("location", "part"),
    [
        ("file:///w/t", "/w/t"),
        ("hdfs://ns/w/t", "/w/t"),
        ("s3://b/w/t", "//b/w/t"),
        ("abfs://c@a/w/t", "/w/t"),
        ("hdfs://ns", ""),
        ("s3://b", "//b"),
    ],
)
def test_what_all_spellings_have_in_common(location: str, part: str) -> None:
    assert common_spelling(location) == part

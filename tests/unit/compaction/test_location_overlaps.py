from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compactor.compaction.location_overlaps import (
    ALL_OTHERS,
    Overlaps,
    Place,
    common_spelling,
    find_covers,
    find_overlaps,
    is_inside,
    map_aliases,
    normalise_location,
    overlapping_pairs,
)


def place(name: str, location: str, partition: str | None = None, *, acid: bool = True) -> Place:
    return Place(table=ord(name), name=name, location=location, partition=partition, is_transactional=acid)


def refused(*places: Place) -> set[str]:
    found = find_overlaps(places)
    return {str(one) for one in places if one.key in found.refused}


def warned(*places: Place) -> set[str]:
    found = find_overlaps(places)
    return {str(one) for one in places if one.key in found.warned}


@pytest.mark.parametrize("other", ["/w/a", "/w/a/inside", "/w"], ids=["at", "inside", "around"])
def test_two_transactional_tables_are_both_refused(other: str) -> None:
    """PROTOCOL 11.13"""
    assert refused(place("a", "/w/a"), place("b", other), place("c", "/w2/c")) == {"a", "b"}


def test_what_is_inside_refuses_the_table_around_it_whatever_it_is() -> None:
    inside = place("p", "/w/a/p", acid=False)
    assert refused(place("a", "/w/a"), inside) == {"a"}
    assert warned(place("a", "/w/a"), inside) == set()


@pytest.mark.parametrize("around", ["/w/a", "/w", ""], ids=["at", "around", "the root"])
def test_a_plain_table_at_or_above_only_warns(around: str) -> None:
    """PROTOCOL 11.13: one at the warehouse's root must not stop everybody."""
    plain = place("p", around, acid=False)
    tables = [place("a", "/w/a"), place("b", "/w/b")]
    assert refused(plain, *tables) == set()
    assert warned(plain, *tables) == ({"a"} if around == "/w/a" else {"a", "b"})


def test_plain_tables_among_themselves_are_their_owners_affair() -> None:
    plain = [place("p", "/w/x", acid=False), place("q", "/w/x", acid=False), place("r", "/w/x/y", acid=False)]
    assert refused(*plain) == warned(*plain) == set()


def test_a_tables_own_partitions_lie_below_it() -> None:
    own = [
        place("a", "/w/a"),
        *(place("a", f"/w/a/p={n}", f"p={n}") for n in (1, 10, 2)),
        place("a", "/far/p=3", "p=3"),
    ]
    assert refused(*own) == warned(*own) == set()


@pytest.mark.parametrize(
    ("one", "other", "wanted"),
    [
        ("/w/a/p=1", "/w/a/p=1", {"a/p=1", "a/p=2"}),
        ("/w/a/p=1", "/w/a/p=1/old", {"a/p=1", "a/p=2"}),
        ("/w/a", "/w/a/p=2", {"a/p=1", "a/p=2"}),
        ("/w", "/w/a/p=2", {"a/p=1", "a/p=2"}),
    ],
    ids=["one place", "one inside the other", "the table's own directory", "around the table"],
)
def test_partitions_of_one_table_in_each_others_way(one: str, other: str, wanted: set[str]) -> None:
    """PROTOCOL 11.13"""
    assert refused(place("a", "/w/a"), place("a", one, "p=1"), place("a", other, "p=2")) == wanted


@pytest.mark.parametrize(
    ("location", "wanted"),
    [
        ("/w/b", {"b", "a/p=1", "b/p=1"}),
        ("/w/b/x", {"b", "a/p=1"}),
        ("/w/b/p=1", {"b", "a/p=1", "b/p=1"}),
        ("/w", {"a/p=1", "b", "b/p=1"}),
    ],
)
def test_a_partition_and_another_table(location: str, wanted: set[str]) -> None:
    """PROTOCOL 11.13"""
    others = [place("b", "/w/b"), place("b", "/w/b/p=1", "p=1")]
    assert refused(place("a", "/q/a"), place("a", location, "p=1"), *others) == wanted


def test_a_plain_partition_inside_refuses_and_around_warns() -> None:
    plain = place("p", "/ext", acid=False)
    assert refused(plain, place("p", "/w/a/x", "p=1", acid=False), place("a", "/w/a")) == {"a"}
    assert refused(plain, place("p", "/w", "p=1", acid=False), place("a", "/w/a")) == set()
    assert warned(plain, place("p", "/w", "p=1", acid=False), place("a", "/w/a")) == {"a"}


def test_names_that_only_begin_alike_do_not_overlap() -> None:
    assert refused(place("a", "/w/t"), place("b", "/w/t-1"), place("c", "/w/t1"), place("d", "/w/t 1")) == set()
    assert refused(place("a", "/w/t"), place("b", "/w/t-1"), place("c", "/w/t/x")) == {"a", "c"}


def test_the_reason_names_both_and_what_to_do() -> None:
    found = find_overlaps([place("a", "/w/a"), *(place(name, f"/w/a/{name}") for name in "bcde")])
    why = found.refusal(ord("a"), None)
    assert why == (
        "a: does not have its directory /w/a to itself: b lies inside it (/w/a/b); c lies inside it (/w/a/c); d lies inside "
        "it (/w/a/d); and 1 more; tables in one directory destroy each other, so nothing is compacted or removed there; "
        "move one of them, or drop what is not needed"
    )
    assert "a lies around it (/w/a)" in (found.refusal(ord("b"), "p=1") or "")
    assert "lies there too" in (find_overlaps([place("a", "/w"), place("b", "/w")]).refusal(ord("a"), "p=1") or "")
    assert Overlaps().refusal(1, None) is None


def test_a_table_is_clear_if_none_of_its_places_overlaps() -> None:
    found = find_overlaps([place("a", "/w/a"), place("b", "/w/b"), place("c", "/w/b/x", "p=1"), place("c", "/w/c")])
    assert [found.is_clear(ord(name)) for name in "abc"] == [True, False, False]


_LOCATIONS = st.lists(st.sampled_from("ab-"), min_size=1, max_size=4).map(lambda names: "/" + "/".join(names))


@given(st.lists(st.tuples(st.integers(0, 3), st.one_of(st.none(), st.sampled_from("xyz")), _LOCATIONS), max_size=12))
def test_every_pair_is_found(drawn: list[tuple[int, str | None, str]]) -> None:
    unique = {(table, partition): location for table, partition, location in drawn}
    places = [
        Place(table=table, name=str(table), partition=partition, location=location)
        for (table, partition), location in unique.items()
    ]
    found = {frozenset((outer.key, inner.key)) for outer, inner in overlapping_pairs(places)}
    wanted = {
        frozenset((one.key, other.key))
        for one in places
        for other in places
        if one is not other
        and (one.location == other.location or other.location.startswith(f"{one.location}/"))
        and not (one.table == other.table and one.partition is None and one.location != other.location)
    }
    assert found == wanted


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

from __future__ import annotations

import pytest

from compactor.storage.places import (
    canonical,
    chooses_host,
    configured_account,
    goes_elsewhere,
    is_plain,
    named_in,
    whole_location,
)


@pytest.mark.parametrize(
    ("kind", "one", "other"),
    [
        ("hdfs", "nn:8020", "NN"),
        ("hdfs", "ann@nn", "nn:8020"),
        ("hdfs", "[::1]:8020", "[::1]"),
        ("abfs", "c@tests.dfs.core.windows.net", "c@TESTS"),
        ("abfs", "c@tests.blob.core.windows.net", "c@tests.dfs.core.windows.net"),
    ],
)
def test_spellings_of_one_place(kind: str, one: str, other: str) -> None:
    assert canonical(kind, one) == canonical(kind, other)


@pytest.mark.parametrize(
    ("kind", "one", "other"),
    [
        ("hdfs", "nn:9000", "nn"),
        ("hdfs", "nn.", "nn"),
        ("hdfs", "nn@evil", "nn"),
        ("hdfs", "evil#@nn", "nn"),
        ("hdfs", "evil?@nn", "nn"),
        ("hdfs", "evil\\@nn", "nn"),
        ("hdfs", "nn%2eevil", "nn"),
        ("hdfs", " nn", "nn"),
        ("hdfs", "nn\n", "nn"),
        ("hdfs", "[::1]", "[0:0:0:0:0:0:0:1]"),
        ("abfs", "c@tests.evil.net", "c@tests"),
        ("abfs", "c@tests.dfs.core.windows.net.evil.net", "c@tests"),
        ("abfs", "c@tests.dfs.core.windows.net.", "c@tests"),
        ("abfs", "c@tests#.dfs.core.windows.net", "c@tests"),
        ("s3", "B", "b"),
    ],
)
def test_different_places(kind: str, one: str, other: str) -> None:
    assert canonical(kind, one) != canonical(kind, other)


def test_an_account_is_named_with_all_of_its_containers_or_with_one() -> None:
    place = "c@tests.dfs.core.windows.net"
    assert named_in("abfs", place, ["TESTS"])
    assert named_in("abfs", place, ["tests.dfs.core.windows.net"])
    assert named_in("abfs", place, ["c@tests"])
    assert not named_in("abfs", place, ["d@tests", "test", "c"])
    assert not named_in("abfs", "c/../d@tests", ["tests"])
    assert not named_in("abfs", "c", ["tests", "c"])


def test_the_configured_account() -> None:
    text = "DefaultEndpointsProtocol=https;AccountName=Tests;AccountKey=aA==;"
    assert configured_account({"connection_string": text, "account_name": "other"}) == "tests"
    assert configured_account({"account_name": "tests"}) == "tests"
    assert configured_account({}) is None
    assert goes_elsewhere("abfs", "c@far", {"connection_string": text}) == "tests"
    assert goes_elsewhere("abfs", "c@tests.dfs.core.windows.net", {"connection_string": text}) is None
    assert goes_elsewhere("abfs", "c@far", {}) is None


def test_the_host_is_the_locations_unless_the_configuration_has_one() -> None:
    assert chooses_host("hdfs", "nn", {})
    assert not chooses_host("hdfs", "nn", {"url": "http://gateway:14000"})
    assert chooses_host("abfs", "c@far", {"account_name": "near"})
    assert not chooses_host("abfs", "c@near.dfs.core.windows.net", {"account_name": "near"})
    assert not chooses_host("abfs", "c", {})
    assert not chooses_host("s3", "b", {})


@pytest.mark.parametrize("name", ["b", "my-bucket.of.us_2", "0b9"])
def test_plain_names(name: str) -> None:
    assert is_plain("s3", name)
    assert is_plain("abfs", f"{name}@account")


def test_a_connection_string_in_the_environment_is_the_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", "AccountName=near;AccountKey=aA==")
    assert configured_account({}) == "near"
    assert configured_account({"connection_string": "AccountName=far"}) == "far"
    assert goes_elsewhere("abfs", "c@far", {}) == "near"
    assert not chooses_host("abfs", "c@near", {})
    assert chooses_host("abfs", "c@far", {})


def test_a_location_without_an_account(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AZURE_STORAGE_CONNECTION_STRING", "AZURE_STORAGE_ACCOUNT_NAME"):
        monkeypatch.delenv(name, raising=False)
    near = {"account_name": "near"}
    assert whole_location("abfs://c/w", near) == "abfs://c@near/w"
    assert whole_location("abfs://c", near) == "abfs://c@near"
    for location in ("abfs://c@far/w", "s3://c/w", "/w", "file:///w", "abfs:/w"):
        assert whole_location(location, near) == location
    assert whole_location("abfs://c/w", {}) == "abfs://c/w"
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "Env")
    assert whole_location("abfs://c/w", {}) == "abfs://c@env/w"

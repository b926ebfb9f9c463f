from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from compactor.base.errors import BadSetting, UnnamedPlace
from compactor.storage.store_options import StoreOptions


def test_a_place_has_its_own_options_over_those_of_its_kind() -> None:
    options = StoreOptions.from_tables(
        {
            "s3": {"endpoint_url": "http://a", "anon": True},
            "s3://far": {"endpoint_url": "http://b"},
            "hdfs": {"user": "x"},
        }
    )
    assert options.of_place("s3", "near") == {"endpoint_url": "http://a", "anon": True}
    assert options.of_place("s3", "far") == {"endpoint_url": "http://b", "anon": True}
    assert options.of_place("gs", "near") == {}


def test_an_unknown_store_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(BadSetting, match=r"\[storage.ftp\].*known are hdfs, s3, abfs, gs"):
        StoreOptions.from_tables({"ftp": {}})
    with pytest.raises(BadSetting, match="expected a table"):
        StoreOptions.from_tables({"s3": "x"})  # type: ignore[dict-item]


def test_no_secret_is_shown() -> None:
    assert "hush" not in repr(StoreOptions.from_tables({"s3": {"secret": "hush"}}))


def test_equal_options_are_one_key() -> None:
    one, two = {"s3": {"a": 1, "b": 2}}, {"s3": {"b": 2, "a": 1}}
    assert hash(StoreOptions.from_tables(one)) == hash(StoreOptions.from_tables(two))


def admitted(options: StoreOptions, *places: str) -> list[bool]:
    """For each ``kind://place``, true if credentials may go there."""
    found = []
    for place in places:
        kind, _, rest = place.partition("://")
        try:
            options.admitted(kind, rest)
        except UnnamedPlace:
            found.append(False)
        else:
            found.append(True)
    return found


def test_only_places_that_the_configuration_names_are_admitted() -> None:
    tables = {"hdfs": {"user": "x", "authorities": ["nn1:8020", "ns1"]}, "hdfs://nn2:9000": {"user": "y"}}
    options = StoreOptions.from_tables(tables)
    places = ("hdfs://nn1", "hdfs://NS1:8020", "hdfs://nn2:9000", "hdfs://nn2:8020", "hdfs://nn1:9000", "hdfs://evil")
    assert admitted(options, *places) == [True, True, True, False, False, False]
    assert options.admitted("hdfs", "NN2:9000") == {"user": "y"}
    assert options.admitted("hdfs", "ns1") == {"user": "x"}
    assert admitted(StoreOptions(), "hdfs://nn", "hdfs://", "abfs://c@a", "s3://b", "gs://b", "abfs://c") == [
        *(False, False, False),
        *(True, True, True),
    ]


def test_with_a_url_for_all_of_hdfs_a_location_chooses_no_host() -> None:
    url = {"url": "http://gateway:14000"}
    assert admitted(StoreOptions.from_tables({"hdfs": url}), "hdfs://", "hdfs://anything:1") == [True, True]
    listed = StoreOptions.from_tables({"hdfs": {**url, "authorities": ["nn"]}})
    assert admitted(listed, "hdfs://nn", "hdfs://", "hdfs://other") == [True, False, False]


def test_with_a_list_only_its_buckets_are_admitted() -> None:
    options = StoreOptions.from_tables({"s3": {"authorities": ["a", "ARN:odd"]}, "s3://b": {}})
    assert admitted(options, "s3://a", "s3://b", "s3://ARN:odd", "s3://c") == [True, True, True, False]


def test_an_account_is_the_one_to_which_the_options_lead() -> None:
    options = StoreOptions.from_tables({"abfs": {"account_name": "near"}, "abfs://c@far": {"account_name": "far"}})
    assert admitted(options, "abfs://c@near", "abfs://c@far", "abfs://d@far", "abfs://c") == [True, True, False, True]
    wrong = StoreOptions.from_tables({"abfs": {"account_name": "near", "authorities": ["far"]}})
    with pytest.raises(UnnamedPlace, match="leads to the account 'near', where this location is not"):
        wrong.admitted("abfs", "c@far")


def test_places_that_other_settings_of_the_site_name_are_admitted() -> None:
    options = StoreOptions.from_tables({"s3": {}}).naming(
        ["hdfs://NN:8020/w", None, "", "/w", "hdfs:///w", "oss://x/w"]
    )
    assert options.named == ("hdfs://NN:8020",)
    assert admitted(options, "hdfs://nn", "hdfs://other", "hdfs://", "s3://any") == [True, False, False, True]


@pytest.mark.parametrize(
    ("tables", "said"),
    [
        ({"hdfs": {"authorities": "nn"}}, "expected a list of names"),
        ({"hdfs": {"authorities": ["hdfs://nn"]}}, "expected a list of names without scheme"),
        ({"hdfs": {"authorities": [""]}}, "expected a list of names"),
        ({"hdfs://nn": {"authorities": []}}, "already names one place"),
        ({"hdfs": {"authorities": ["[nn"]}}, "is not an authority of HDFS"),
        ({"hdfs": {"authorities": ["nn?x"]}}, "is not an authority of HDFS"),
        ({"hdfs://nn]": {}}, "is not an authority of HDFS"),
    ],
)
def test_authorities_are_names(tables: dict[str, dict[str, object]], said: str) -> None:
    with pytest.raises(BadSetting, match=said):
        StoreOptions.from_tables(tables)


def test_the_message_says_what_to_write_and_repeats_no_password() -> None:
    with pytest.raises(UnnamedPlace) as refused:
        StoreOptions().admitted("hdfs", "ann:hush@nn:8020")
    assert '[storage.hdfs] authorities = ["nn:8020"]' in str(refused.value)
    assert "hush" not in str(refused.value)
    with pytest.raises(UnnamedPlace, match=r"write url into \[storage\.hdfs\]"):
        StoreOptions().admitted("hdfs", "")


@pytest.mark.parametrize(
    "url", ["nn:9870", "http://[nn", "http://nn]:1/", "ftp://nn", "http://", 7, ["http://a", None]]
)
def test_urls_are_of_a_name_node(url: object) -> None:
    for table in ("hdfs", "hdfs://nn"):
        with pytest.raises(BadSetting, match="expected http://host:port of a NameNode or HttpFS"):
            StoreOptions.from_tables({table: {"url": url}})
    with pytest.raises(BadSetting) as refused:
        StoreOptions.from_tables({"hdfs": {"url": "ftp://ann:hush@nn"}})
    assert "hush" not in str(refused.value)


def test_an_application_acts_for_its_user_where_the_site_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HADOOP_TOKEN_FILE_LOCATION", raising=False)
    ticket = {"kerberos": True, "principal": "hive/host@EXAMPLE.COM", "keytab": "/k"}
    tables = {
        "hdfs": {**ticket, "doas": True, "authorities": ["nn", "nn2", "nn3"]},
        "hdfs://nn2": {"url": "http://nn2:1"},
        "hdfs://nn3": {"user": "x"},
        "s3": {"key": "k"},
    }
    found = StoreOptions.from_tables(tables).acting_for("ann")
    assert found.admitted("hdfs", "nn") == {**ticket, "proxy_to": "ann"}
    assert found.admitted("hdfs", "nn2") == {**ticket, "url": "http://nn2:1", "proxy_to": "ann"}
    assert found.admitted("hdfs", "nn3") == {"user": "x"}
    assert found.admitted("s3", "b") == {"key": "k"}
    assert "proxy_to" not in StoreOptions.from_tables(tables).acting_for("hive").admitted("hdfs", "nn")  # ourselves
    assert "proxy_to" not in StoreOptions.from_tables({"hdfs": {**ticket, "url": "http://nn:1"}}).acting_for("ann").text


def test_tokens_that_hadoop_gave_an_application_are_its_users_already(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HADOOP_TOKEN_FILE_LOCATION", "/container/tokens")
    given = {"kerberos": True, "doas": True, "url": "http://nn:1"}
    assert "proxy_to" not in StoreOptions.from_tables({"hdfs": given}).acting_for("ann").text
    assert "proxy_to" in StoreOptions.from_tables({"hdfs": {**given, "keytab": "/k"}}).acting_for("ann").text


@pytest.mark.parametrize(
    ("kind", "place", "options"),
    [
        ("gs", "bucket", {"token": "secret"}),
        ("hdfs", "nn", {"session_cert": "secret"}),
        ("hdfs", "nn", {"session_cert": ["certificate", "secret"]}),
        ("hdfs", "nn", {"kerberos": True, "keytab": "secret"}),
    ],
)
def test_no_client_is_opened_with_a_secret_that_others_may_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, place: str, options: dict[str, Any]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("certificate", "secret"):
        (tmp_path / name).touch()
        (tmp_path / name).chmod(0o644)
    found = StoreOptions.from_tables({kind: {**options, "authorities": [place]}})
    with pytest.raises(BadSetting, match=rf"of \[storage\.{kind}\] secret: has mode 0644; expected: 0600"):
        found.admitted(kind, place)
    (tmp_path / "secret").chmod(0o640)
    assert found.admitted(kind, place) == options


def test_a_token_that_is_no_file_is_the_secret_itself(tmp_path: Path) -> None:
    assert StoreOptions.from_tables({"gs": {"token": "anon", "authorities": ["b"]}}).admitted("gs", "b") == {
        "token": "anon"
    }
    assert StoreOptions.from_tables({"gs": {"token": "x\0" * 9999, "authorities": ["b"]}}).admitted("gs", "b")

from __future__ import annotations

from compactor.launch.yarn_application import find_application_id, is_application, make_tag, read_application

ROW = {
    "id": "application_1795511587900_0004",
    "state": "FINISHED",
    "finalStatus": "SUCCEEDED",
    "queue": "root.etl",
    "user": "hive",
    "name": "here-compactor-default.t",
    "applicationTags": "a,compactor-default-7-17",
    "diagnostics": "",
    "trackingUrl": "http://rm:8088/proxy/application_1795511587900_0004/",
    "amContainerLogs": "http://nm:8042/node/containerlogs/container_1/hive",
}


def test_a_row_of_the_list() -> None:
    found = read_application(ROW)
    assert (found.queue, found.user, found.name) == ("root.etl", "hive", "here-compactor-default.t")
    assert found.tags == {"a", "compactor-default-7-17"}
    assert (found.has_ended, found.waits, found.verdict) == (True, False, "FINISHED, SUCCEEDED")
    assert found.log_url == ROW["amContainerLogs"]


def test_a_row_of_an_application_that_we_may_not_see() -> None:
    bare = read_application({"id": "application_1_2", "state": "ACCEPTED"})
    assert (bare.has_ended, bare.waits, bare.verdict, bare.tags) == (False, True, "ACCEPTED", frozenset())


def test_ids() -> None:
    assert is_application("application_1_0002")
    assert not is_application("process:h:1:2")
    assert not is_application(None)
    assert find_application_id("application_1_0001 … INFO application_1_0002 (state: ACCEPTED)") == "application_1_0002"
    pod = "application ID spark-f815 and submission ID etl:vm-t-e62c80-driver into Kubernetes"
    assert find_application_id(pod) == "etl:vm-t-e62c80-driver"
    assert find_application_id("nothing") is None


def test_a_tag_is_what_yarn_keeps() -> None:
    """In lower case, ASCII, without commas, and at most 100 characters, of which the end distinguishes."""
    assert make_tag("West", 7, 1_700_000_000_000) == "compactor-west-7-1700000000000"
    assert make_tag("ä,b", 7, 1) == "compactor---b-7-1"
    long = make_tag("x" * 200, 7, 1_700_000_000_000)
    assert (len(long), long.endswith("x-7-1700000000000")) == (100, True)

from __future__ import annotations

import pytest

from compactor.launch.yarn_application import (
    find_application_id,
    find_reason,
    is_application,
    make_tag,
    read_application,
)

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


ID = "application_1795511587900_0002"
YARN = 'Exception in thread "main" org.apache.hadoop.yarn.exceptions.YarnException: '
AT = "\n\tat org.apache.spark.deploy.SparkSubmit.main(SparkSubmit.scala)\n"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            f"{YARN}Failed to submit {ID} to YARN : Application {ID} submitted by user root to unknown queue: nope{AT}",
            f"Application {ID} submitted by user root to unknown queue: nope",
        ),
        (
            f"{YARN}org.apache.hadoop.security.AccessControlException: User root does not have permission to submit {ID} "
            f"to queue closed{AT}Caused by: org.apache.hadoop.security.AccessControlException: User root does not{AT}",
            f"User root does not have permission to submit {ID} to queue closed",
        ),
        (
            f"{YARN}Failed to submit {ID} to YARN : org.apache.hadoop.security.AccessControlException: Queue root.full "
            f"already has 1 applications, cannot accept submission of application: {ID}{AT}",
            f"Queue root.full already has 1 applications, cannot accept submission of application: {ID}",
        ),
        (
            "2026-11-24 09:00:00,001 INFO compactor.x: begins\n2026-11-24 09:00:00,001 ERROR compactor: metastore default: "
            f"no database is configured{AT}",
            "metastore default: no database is configured",
        ),
        (
            "Traceback\n  File x\nModuleNotFoundError: No module named 'compactor'\n",
            "ModuleNotFoundError: No module named 'compactor'",
        ),
        (
            f'Exception in thread "main" java.io.IOException: Cannot run program "./python"{AT}',
            'Cannot run program "./python"',
        ),
        ("26/11/24 09:13:21 INFO Client: nothing", None),
    ],
)
def test_the_sentence_that_says_why(text: str, reason: str | None) -> None:
    assert find_reason(text) == reason
